"""Reports as people read them: tables, two or more side by side, and a line per project and day in CSV. Django-free."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from portal.common.csv_text import csv_line

Report = dict[str, Any]
WAIT_CLASSES = ("debug", "small", "large", "all")
NOTHING = "-"
CSV_COLUMNS = (
    "scenario", "cluster", "project", "day", "owed_gpu_hours", "delivered_gpu_hours", "unallocated_gpu_hours",
    "occupied_gpu_hours", "waiting_gpu_hours", "preemptions",
)  # fmt: skip
DAY_KEYS = ("owed", "delivered", "unallocated", "occupied", "waiting", "preemptions")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a report: where its value is and how it is written."""

    name: str
    value: Callable[[Report], Any]
    write: Callable[[Any], str]


def percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def one_digit(value: float) -> str:
    return f"{value:,.1f}"


def duration(seconds: float) -> str:
    """42 s, 3 min 20 s, 2 h 5 min, 1 d 3 h: the two units that matter."""
    rest = round(seconds)
    if rest < 60:
        return f"{seconds:.0f} s" if seconds == rest else f"{seconds:.1f} s"
    for size, unit, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if rest >= size:
            big, left = divmod(rest, size)
            return f"{big} {unit} {left // smaller} {small}" if left // smaller else f"{big} {unit}"
    raise AssertionError(seconds)


def at(*keys: str) -> Callable[[Report], Any]:
    """The value under nested keys; None where one is missing."""

    def read(report: Report) -> Any:
        value: Any = report
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return read


def _wait_figures(name: str) -> list[Figure]:
    return [
        Figure(f"wait {name}: started of asked", lambda report: report["waits"][name], _started),
        *(Figure(f"wait {name}: {words}", at("waits", name, key), duration)
          for words, key in (("mean", "mean_s"), ("median", "p50_s"), ("p90", "p90_s"), ("p99", "p99_s"))),
    ]  # fmt: skip


def _started(waits: dict[str, Any]) -> str:
    return f"{waits['started']:,} of {waits['n']:,}"


FIRST_FIGURES = (
    Figure("scheduler", at("scheduler"), str),
    Figure("jobs", at("jobs"), whole),
    Figure("jobs finished", at("completed"), whole),
    Figure("measured hours", at("measured_hours"), one_digit),
    Figure("demand / schedulable GPUs", at("demand_ratio"), lambda value: f"{value:.2f}"),
    Figure("availability", at("availability"), percent),
    Figure("occupancy", at("occupancy"), percent),
    Figure("unallocated part of it", at("unallocated_fraction"), percent),
    Figure("delivery, mean", at("delivery_mean"), percent),
    Figure("delivery, lowest", at("delivery_min"), percent),
    Figure("projects at 95 % or more", at("delivery_ge_95"), whole),
)
LAST_FIGURES = (
    Figure("preemptions", at("preemptions"), whole),
    Figure("lost to preemption, GPU-hours", at("lost_gpu_hours"), one_digit),
    Figure("lost to preemption, of capacity", at("lost_fraction"), percent),
    Figure("lost to failures, GPU-hours", at("lost_to_failures_gpu_hours"), one_digit),
    Figure("free but unusable, GPU-hours", at("free_unusable_gpu_hours"), one_digit),
    Figure("begun and unfinished at the end", at("unfinished_started"), whole),
    Figure("submitted after the end: left out", at("cut_jobs"), whole),
    Figure("larger than the cluster: never start", at("too_large_jobs"), whole),
    Figure("parts of a GPU, rounded up", at("rounded_jobs"), whole),
    Figure("seed", at("seed"), str),
    Figure("computed in", at("wall_s"), lambda value: f"{value:.1f} s"),
    Figure("jobs per second", at("jobs_per_s"), whole),
)
WAIT_FIGURES = {name: tuple(_wait_figures(name)) for name in WAIT_CLASSES}
FIGURES = (*FIRST_FIGURES, *(one for figures in WAIT_FIGURES.values() for one in figures), *LAST_FIGURES)
WAIT_HEADER = ("queue wait", "started", "mean", "median", "p90", "p99")
PROJECT_HEADER = ("project", "share", "owed", "delivered", "delivery", "wait p50", "wait p90", "preempted", "lost")


def clusters_of(report: Report) -> list[Report]:
    """The first cluster and the others."""
    return [report, *report.get("others", [])]


def write_report(report: Report) -> str:
    """One scenario as text: figures, projects, notes; cluster by cluster."""
    return "\n\n".join(_write_cluster(one) for one in clusters_of(report))


def _write_cluster(report: Report) -> str:
    parts = [
        f"Cluster {report['cluster']}",
        write_table([(figure.name, _written(figure, report)) for figure in FIRST_FIGURES]),
        "",
        write_table(
            [
                WAIT_HEADER,
                *((name, *(_written(one, report) for one in figures)) for name, figures in WAIT_FIGURES.items()),
            ]
        ),
        "",
        write_table([(figure.name, _written(figure, report)) for figure in LAST_FIGURES]),
        "",
        "Projects (GPU-hours)",
        write_table([PROJECT_HEADER, *_project_rows(report)]),
    ]
    return "\n".join([*parts, *(f"Note: {note}" for note in report["notes"])])


def _project_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for path, one in report["by_project"].items():
        waits = one["waits"]["all"]
        yield (
            path,
            percent(one["share"]),
            one_digit(one["owed_gpu_hours"]),
            one_digit(one["delivered_gpu_hours"]),
            _or_nothing(one["delivery"], percent),
            _or_nothing(waits["p50_s"], duration),
            _or_nothing(waits["p90_s"], duration),
            whole(one["preemptions"]),
            one_digit(one["lost_gpu_hours"]),
        )


def write_comparison(names: Sequence[str], reports: Sequence[Report]) -> str:
    """Scenarios side by side: a column each, for each cluster that all of them have."""
    tables = []
    for cluster in [one["cluster"] for one in clusters_of(reports[0])]:
        found = [next((one for one in clusters_of(report) if one["cluster"] == cluster), None) for report in reports]
        both = [one for one in found if one is not None]
        if len(both) == len(reports):
            tables.append(_write_beside(cluster, names, both))
    if not tables:  # the clusters have other names: first beside first
        tables.append(_write_beside(", ".join(report["cluster"] for report in reports), names, reports))
    return "\n\n".join(tables)


def _write_beside(cluster: str, names: Sequence[str], reports: Sequence[Report]) -> str:
    rows = [(figure.name, *(_written(figure, report) for report in reports)) for figure in FIGURES]
    paths = list(dict.fromkeys(path for report in reports for path in report["by_project"]))
    per_project: list[tuple[str, ...]] = [
        (path, *(_project_cell(report["by_project"].get(path)) for report in reports)) for path in paths
    ]
    notes = [f"Note ({name}): {note}" for name, report in zip(names, reports, strict=True) for note in report["notes"]]
    return "\n".join([
        f"Cluster {cluster}",
        write_table([("", *names), *rows]),
        "Projects: delivered of owed GPU-hours; wait p50 / p90; preemptions",
        write_table([("project", *names), *per_project]),
        *notes,
    ])  # fmt: skip


def _project_cell(one: dict[str, Any] | None) -> str:
    if one is None:
        return NOTHING
    waits = one["waits"]["all"]
    times = " / ".join(_or_nothing(waits[key], duration) for key in ("p50_s", "p90_s"))
    hours = f"{whole(one['delivered_gpu_hours'])} of {whole(one['owed_gpu_hours'])}"
    return f"{hours}; {times}; {whole(one['preemptions'])}"


def _written(figure: Figure, report: Report) -> str:
    return _or_nothing(figure.value(report), figure.write)


def _or_nothing(value: Any, write: Callable[[Any], str]) -> str:
    return NOTHING if value is None else write(value)


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns under each other: the first to the left, others to the right."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def compare(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """The figures of several reports as data: `{"figure", "values"}` a line, for pages and charts."""
    return [{"figure": figure.name, "values": [_plain(figure, report) for report in reports]} for figure in FIGURES]


def _plain(figure: Figure, report: Report) -> Any:
    value = figure.value(report)
    return value["started"] if isinstance(value, dict) else value


def csv_lines(names: Sequence[str], reports: Sequence[Report]) -> Iterator[str]:
    """A header, then a line per scenario, cluster, project and day."""
    yield csv_line(CSV_COLUMNS)
    for name, report in zip(names, reports, strict=True):
        for one in clusters_of(report):
            for row in one["days"]:
                start = (name, one["cluster"], row["project"], row["day"])
                yield csv_line((*start, *(row[key] for key in DAY_KEYS)))
