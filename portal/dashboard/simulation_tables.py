"""A run as its reader may see it: figures, inputs and tables of its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.dashboard.chart_words import text_cell
from portal.dashboard.charts import Cell, Column, Table
from portal.dashboard.simulation_words import counted, percent_text, seconds_text, simulated_words
from portal.projects.models import User
from portal.simulations.editing import hosts_of
from portal.simulations.models import Run
from portal.simulations.names import HIDDEN, OWED, names_hidden, report_seen, text_seen

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """A run with the report of one of its clusters, without what its reader may not see."""

    run: Run
    hidden: frozenset[str]
    report: dict[str, Any]
    clusters: list[str]

    @property
    def cluster(self) -> str:
        return str(self.report.get("cluster", ""))

    @property
    def others(self) -> bool:
        """Whether it has more than one cluster."""
        return len(self.clusters) > 1

    @property
    def hidden_count(self) -> int:
        """How many projects are left out of the report."""
        return int(self.report.get(HIDDEN, 0))

    @property
    def notes(self) -> list[str]:
        return [text_seen(note, self.hidden) for note in self.run.notes]

    @property
    def clusters_words(self) -> list[tuple[str, str]]:
        """Each cluster of the scenario: its hosts and its policy."""
        return clusters_in_words(self.run)

    @property
    def error(self) -> str:
        return text_seen(self.run.error, self.hidden)


def reading_of(run: Run, user: User, *, part: str = "") -> Reading:
    """The run as that person reads it; `part` names one of several clusters."""
    hidden = names_hidden(run=run, user=user)
    whole = report_seen(run.report, hidden) or {}
    parts = [whole, *whole.get("others", [])] if whole else []
    chosen = next((each for each in parts if each.get("cluster") == part), whole)
    return Reading(run, hidden, chosen, [each["cluster"] for each in parts])


def figures_of(report: Report) -> list[dict[str, str]]:
    """The four that say how it went."""
    waits = report["waits"]
    owed = report.get(OWED, sum(ratio is not None for ratio in report["delivery"].values()))
    return [
        {
            "what": "Delivered of what was owed",
            "value": percent_text(report["delivery_mean"]),
            "note": f"mean of the projects; {report['delivery_ge_95']} of {owed} got 95 % or more, "
            f"the lowest {percent_text(report['delivery_min'])}",
        },
        {
            "what": "Occupancy",
            "value": percent_text(report["occupancy"]),
            "note": f"{percent_text(report['unallocated_fraction'])} of it unallocated; "
            f"demand {report['demand_ratio']:.2f} x the schedulable GPUs",
        },
        {
            "what": "Debug wait, nine in ten",
            "value": seconds_text(waits["debug"]["p90_s"]),
            "note": f"all workloads: half within {seconds_text(waits['all']['p50_s'])}, "
            f"nine in ten within {seconds_text(waits['all']['p90_s'])}",
        },
        {
            "what": "Lost to preemption",
            "value": percent_text(report["lost_fraction"]),
            "note": f"of capacity: {report['lost_gpu_hours']:,.0f} GPU-hours, {report['preemptions']:,} preemptions",
        },
    ]


def inputs_of(run: Run) -> list[tuple[str, str]]:
    """What it was made from, so that it can be made again."""
    report = run.report or {}
    found = clusters_in_words(run)
    found += [
        ("Simulated", simulated_words(report)),
        (
            "Workloads",
            f"{report['jobs']:,}; {report['cut_jobs']:,} cut by the end, {report['too_large_jobs']:,} too large",
        ),
        ("Seed", str(run.seed)),
        ("Took", f"{seconds_text(run.wall_seconds)}; {report['jobs_per_s']:,.0f} workloads a second"),
        ("Code", run.code_version),
    ]
    return found


def clusters_in_words(run: Run) -> list[tuple[str, str]]:
    """Each cluster of a run's scenario: its hosts and its policy."""
    return [(f"Cluster {cluster.get('name', '')}", _cluster_words(cluster)) for cluster in run.scenario["clusters"]]


def _cluster_words(cluster: Mapping[str, Any]) -> str:
    groups = [
        f"{counted(group['count'], 'host')} of {counted(group['gpus'], 'GPU')}" for group in hosts_of(dict(cluster))
    ]
    policy = [f"{name} {value}" for name, value in cluster.get("policy", {}).items()]
    return ", ".join(groups) + (f"; policy: {', '.join(policy)}" if policy else "; policy: the defaults")


def days_table(report: Report) -> Table:
    """One row a project and day, GPU-hours."""
    amounts = ("owed", "delivered", "unallocated", "occupied", "waiting")
    columns = [Column("project", numeric=False), Column("day"), *(Column(name, "GPU-hours") for name in amounts)]
    rows = [
        [
            text_cell(row["project"]),
            Cell(str(row["day"]), row["day"]),
            *(Cell(f"{row[name]:,.2f}", round(row[name], 4)) for name in amounts),
            Cell(str(row["preemptions"]), row["preemptions"]),
        ]
        for row in report["days"]
    ]
    return Table([*columns, Column("preemptions")], rows)


def comparison_table(labels: Sequence[str], reports: Sequence[Report]) -> Table:
    """A row a figure, a column a run."""
    rows = [
        [text_cell(name), *(text_cell(words) for words in values)]
        for name, values in ((name, [words(report) for report in reports]) for name, words in FIGURES)
    ]
    return Table([Column("figure", numeric=False), *(Column(label) for label in labels)], rows)


def _wait(name: str, field: str) -> Any:
    return lambda report: seconds_text(report["waits"][name][field])


def _ratio(field: str) -> Any:
    return lambda report: percent_text(report[field])


def _amount(field: str) -> Any:
    return lambda report: f"{report[field]:,.0f}"


FIGURES = (
    ("Delivered of what was owed, mean", _ratio("delivery_mean")),
    ("Lowest delivery of a project", _ratio("delivery_min")),
    ("Projects with 95 % or more", _amount("delivery_ge_95")),
    ("Occupancy", _ratio("occupancy")),
    ("Unallocated part of it", _ratio("unallocated_fraction")),
    ("Debug, half started within", _wait("debug", "p50_s")),
    ("Debug, nine in ten within", _wait("debug", "p90_s")),
    ("Small, nine in ten within", _wait("small", "p90_s")),
    ("Large, nine in ten within", _wait("large", "p90_s")),
    ("All, half started within", _wait("all", "p50_s")),
    ("All, nine in ten within", _wait("all", "p90_s")),
    ("Preemptions", _amount("preemptions")),
    ("GPU-hours lost to preemption", _amount("lost_gpu_hours")),
    ("Begun and not ended, at the end", _amount("unfinished_started")),
    ("GPU-hours free while work waited", _amount("free_unusable_gpu_hours")),
    ("Workloads", _amount("jobs")),
    ("Left out: too large for their hosts", _amount("too_large_jobs")),
)
