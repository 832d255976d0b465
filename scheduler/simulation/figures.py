"""From the ledger of a run to its report. Sums are whole GPU-seconds until the last division."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.simulation.integrate import integrate, integrate_steps
from scheduler.simulation.ledger import STANDINGS
from scheduler.simulation.loop import Loop
from scheduler.simulation.mix import describe_mix
from scheduler.simulation.report import WAIT_CLASSES, DayRow, ProjectFigures, Report, Series, Waits, summarise_waits
from scheduler.simulation.setup import Setup
from scheduler.types import NEVER, PPM, BoolArray, IntArray, Standing

HOUR, DAY = 3600, 86400

FloatArray = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Hours:
    """By hour of the run (columns), and by project where it says so (rows)."""

    edges: IntArray
    measured: BoolArray
    subtree: BoolArray  # [project, below]: is `below` in the subtree of `project`
    schedulable: IntArray
    by_standing: dict[int, IntArray]  # by project, its own work alone
    asked: IntArray  # demand with a minimum runtime above 0, by project, own work alone
    waiting: IntArray  # GPU-seconds waiting, by project
    entitled: FloatArray  # share x schedulable, by project

    def total(self, rows: IntArray) -> IntArray:
        """By project, its whole subtree counted."""
        return np.asarray(self.subtree.astype(np.int64) @ rows)

    @property
    def owed(self) -> FloatArray:
        """Hour by hour the smaller of share x schedulable GPUs and demand."""
        return np.minimum(self.entitled, self.total(self.asked))

    @property
    def delivered(self) -> IntArray:
        """Allocated GPU-seconds."""
        return self.total(self.by_standing[Standing.PROTECTED] + self.by_standing[Standing.FUNDED])


UNMEASURED = "Nothing was left to happen before the warm-up was over, so nothing was measured: these zeros say nothing."


def build_report(loop: Loop) -> Report:
    """All figures of a run that has ended."""
    setup, hours = loop.setup, read_hours(loop)
    since = setup.warmup_seconds
    waits, restarts = _split_waits(loop, since)
    occupied = {kind: int(rows[:, hours.measured].sum()) for kind, rows in hours.by_standing.items()}
    total = sum(occupied.values())
    span = max(loop.now - since, 0)
    schedulable, installed = int(hours.schedulable[hours.measured].sum()), setup.gpus * span
    delivery = _list_deliveries(loop, hours)
    ratios = [value for value in delivery.values() if value is not None]
    capped = [min(value, 1.0) for value in ratios]
    lost = _read_lost(loop, since)
    series = _build_series(loop, hours)
    levels = loop.ledger.levels.read()
    step = {name: integrate_steps(levels["at"], levels[name], hours.edges) for name in ("unusable", "held")}
    waiting = int(hours.waiting[:, hours.measured].sum())
    return Report(
        jobs=loop.submitted,
        demand_ratio=(total + waiting) / schedulable if schedulable else 0.0,
        occupancy=total / schedulable if schedulable else 0.0,
        unallocated_fraction=occupied[Standing.UNALLOCATED] / total if total else 0.0,
        availability=schedulable / installed if installed else 0.0,
        delivery=delivery,
        delivery_mean=sum(capped) / len(capped) if capped else None,
        delivery_min=min(ratios, default=None),
        delivery_ge_95=sum(value >= 0.95 for value in ratios),
        waits=_summarise(waits),
        restart_waits=_summarise(restarts),
        preemptions=int((loop.ledger.preemptions.read()["at"] >= since).sum()),
        lost_gpu_hours=lost[0] / HOUR,
        lost_fraction=lost[0] / installed if installed else 0.0,
        lost_to_failures_gpu_hours=lost[1] / HOUR,
        squatted_gpu_hours=_sum_squatted(loop, since) / HOUR,
        unfinished_started=loop.unfinished,
        free_unusable_gpu_hours=int(step["unusable"][hours.measured].sum()) / HOUR,
        held_gpu_hours=int(step["held"][hours.measured].sum()) / HOUR,
        gpu_hours={STANDINGS[kind]: value / HOUR for kind, value in occupied.items()},
        capacity_gpu_hours=installed / HOUR,
        completed=loop.completed,
        ended_preempted=loop.ended_preempted,
        ended_host_failed=loop.ended_host_failed,
        cut_jobs=loop.source.cut,
        too_large_jobs=loop.source.too_large,
        rounded_jobs=setup.rounded_jobs,
        class_mix=describe_mix(loop.ledger.submitted.read()),
        by_project=_list_projects(loop, hours, waits),
        days=_list_days(loop, hours),
        series=series,
        scheduler=str(setup.scheduler),
        decisions=loop.decisions,
        passes_skipped=max(loop.now // setup.pass_interval_seconds + 1 - loop.grid_passes, 0),
        checked=loop.decider.checked,
        seed=setup.seed,
        warmup_days=setup.warmup_days,
        measured_hours=span / HOUR,
        notes=[] if span else [UNMEASURED],
    )


# ---------------------------------------------------------------- by hour


def read_hours(loop: Loop) -> Hours:
    """Integrate the ledger over the hours of the run."""
    setup, ledger, end = loop.setup, loop.ledger, loop.now
    edges = np.append(np.arange(0, end, HOUR, dtype=np.int64), end)
    if len(edges) < 2:
        edges = np.array([0, 1], dtype=np.int64)
    count = len(setup.projects)
    segments, waits, capacity = ledger.segments.read(), ledger.waits.read(), ledger.capacity.read()

    def sum_up(rows: dict[str, IntArray], keep: BoolArray) -> IntArray:
        columns = (rows[name][keep] for name in ("project", "start", "end", "gpus"))
        return integrate(*columns, groups=count, edges=edges)

    asked = sum_up(segments, segments["asked"] == 1) + sum_up(waits, waits["asked"] == 1)
    return Hours(
        edges=edges,
        measured=edges[:-1] >= setup.warmup_seconds,
        subtree=_find_subtrees(setup),
        schedulable=integrate_steps(capacity["at"], capacity["gpus"], edges),
        by_standing={kind: sum_up(segments, segments["standing"] == kind) for kind in STANDINGS},
        asked=asked,
        waiting=sum_up(waits, waits["gpus"] > 0),
        entitled=_entitle(setup, capacity, edges),
    )


def _find_subtrees(setup: Setup) -> BoolArray:
    count = len(setup.projects)
    below = np.eye(count, dtype=bool)
    for number in range(count - 1, 0, -1):  # children stand after their parents
        below[setup.projects[number].parent] |= below[number]
    return below


def _entitle(setup: Setup, capacity: dict[str, IntArray], edges: IntArray) -> FloatArray:
    """Share x schedulable GPU-seconds by project and hour."""
    count, steps = len(setup.projects), setup.shares
    moments = np.unique(np.concatenate([edges, capacity["at"], np.maximum(steps.at, 0)]))
    moments = moments[moments < edges[-1]]
    spans = np.append(moments[1:], edges[-1]) - moments
    gpus = capacity["gpus"][np.searchsorted(capacity["at"], moments, side="right") - 1]
    own = np.zeros((count, len(moments)))
    own[0] = 1.0
    for row in np.argsort(steps.at, kind="stable").tolist():
        own[int(steps.project[row]), moments >= steps.at[row]] = steps.share_ppm[row] / PPM
    for number, project in enumerate(setup.projects):
        if project.parent != NEVER:
            own[number] *= own[project.parent]
    return np.asarray(np.add.reduceat(own * (gpus * spans), np.searchsorted(moments, edges[:-1]), axis=1))


def _build_series(loop: Loop, hours: Hours) -> Series:
    levels = loop.ledger.levels.read()
    spans = np.diff(hours.edges)

    def mean(name: str) -> list[float]:
        return [
            round(value, 2) for value in (integrate_steps(levels["at"], levels[name], hours.edges) / spans).tolist()
        ]

    def share(rows: IntArray) -> list[float]:
        return [round(value, 2) for value in (rows.sum(axis=0) / spans).tolist()]

    return Series(
        hour=(hours.edges[:-1] // HOUR).tolist(),
        running_gpus=share(sum(hours.by_standing.values(), np.zeros_like(hours.asked))),
        unallocated_gpus=share(hours.by_standing[Standing.UNALLOCATED]),
        waiting_gpus=share(hours.waiting),
        waiting_workloads=mean("waiting"),
        unfinished_started=mean("unfinished"),
        interrupted=mean("interrupted"),
        free_gpus=mean("free"),
        free_unusable_gpus=mean("unusable"),
        held_gpus=mean("held"),
    )


# ---------------------------------------------------------------- by project


def _ratio(owed: float, delivered: float) -> float | None:
    return delivered / owed if owed > 0 else None


def _list_budgeted(setup: Setup) -> list[int]:
    """Projects with a budget and no budgeted child: what delivery is told of."""
    having = set(setup.shares.project.tolist())
    parents = {setup.projects[number].parent for number in having}
    return sorted(having - parents) or [0]


def _list_deliveries(loop: Loop, hours: Hours) -> dict[str, float | None]:
    owed = hours.owed[:, hours.measured].sum(axis=1)
    delivered = hours.delivered[:, hours.measured].sum(axis=1)
    return {
        loop.setup.projects[number].path: _ratio(float(owed[number]), float(delivered[number]))
        for number in _list_budgeted(loop.setup)
    }


def _summarise(waits: dict[str, IntArray]) -> dict[str, Waits]:
    """By class, of the rows given."""
    found = {}
    for kind, name in enumerate(WAIT_CLASSES):
        mine = np.ones(len(waits["kind"]), dtype=bool) if name == "all" else waits["kind"] == kind
        started = int((waits["started"][mine] == 1).sum())
        found[name] = summarise_waits(started, (waits["end"] - waits["start"])[mine])
    return found


def _split_waits(loop: Loop, since: int) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
    """Of what was measured: waits for first starts, and for restarts."""
    waits = loop.ledger.waits.read()
    fresh = (waits["restart"] == 0) & (waits["submit"] >= since)
    again = (waits["restart"] == 1) & (waits["start"] >= since)
    return (
        {name: column[fresh] for name, column in waits.items()},
        {name: column[again] for name, column in waits.items()},
    )


def _read_lost(loop: Loop, since: int) -> tuple[int, int]:
    """GPU-seconds lost to preemption, and to host failures."""
    lost = loop.ledger.lost.read()
    late = lost["at"] >= since
    fault = lost["fault"] == 1
    return int(lost["gpu_seconds"][late & ~fault].sum()), int(lost["gpu_seconds"][late & fault].sum())


def _sum_squatted(loop: Loop, since: int) -> int:
    rows = loop.ledger.squatted.read()
    return int(rows["gpu_seconds"][rows["at"] >= since].sum())


def _list_projects(loop: Loop, hours: Hours, waits: dict[str, IntArray]) -> dict[str, ProjectFigures]:
    setup, measured = loop.setup, hours.measured
    owed, delivered = hours.owed[:, measured].sum(axis=1), hours.delivered[:, measured].sum(axis=1)
    used = {kind: hours.total(rows)[:, measured].sum(axis=1) for kind, rows in hours.by_standing.items()}
    taken, lost = loop.ledger.preemptions.read(), loop.ledger.lost.read()
    taken_of = taken["project"][taken["at"] >= setup.warmup_seconds]
    late = (lost["at"] >= setup.warmup_seconds) & (lost["fault"] == 0)
    schedulable = hours.schedulable[-1]
    found = {}
    for number, project in enumerate(setup.projects):
        below = hours.subtree[number]
        mine = below[waits["project"]]
        found[project.path] = ProjectFigures(
            share=float(hours.entitled[number, -1] / schedulable) if schedulable else 0.0,
            delivery=_ratio(float(owed[number]), float(delivered[number])),
            owed_gpu_hours=float(owed[number]) / HOUR,
            delivered_gpu_hours=int(delivered[number]) / HOUR,
            gpu_hours={STANDINGS[kind]: int(rows[number]) / HOUR for kind, rows in used.items()},
            waits=_summarise({name: column[mine] for name, column in waits.items()}),
            preemptions=int(below[taken_of].sum()),
            lost_gpu_hours=int(lost["gpu_seconds"][late & below[lost["project"]]].sum()) / HOUR,
        )
    return found


def _list_days(loop: Loop, hours: Hours) -> list[DayRow]:
    """Every project with work or a budget, day by day, warm-up included."""
    starts = np.arange(0, len(hours.edges) - 1, DAY // HOUR)

    def by_day(rows: NDArray[np.float64] | IntArray) -> list[list[float]]:
        return [[round(float(value) / HOUR, 4) for value in row] for row in np.add.reduceat(rows, starts, axis=1)]

    standings = hours.by_standing
    owed, delivered, unallocated, occupied, waiting = (
        by_day(rows)
        for rows in (
            hours.owed,
            hours.delivered,
            hours.total(standings[Standing.UNALLOCATED]),
            hours.total(sum(standings.values(), np.zeros_like(hours.asked))),
            hours.total(hours.waiting),
        )
    )
    taken = loop.ledger.preemptions.read()
    counts = np.zeros((len(loop.setup.projects), len(starts)), dtype=np.int64)
    np.add.at(counts, (taken["project"], np.minimum(taken["at"] // DAY, len(starts) - 1)), 1)
    counts = hours.total(counts)
    return [
        DayRow(
            project=project.path,
            day=day,
            owed=owed[number][day],
            delivered=delivered[number][day],
            unallocated=unallocated[number][day],
            occupied=occupied[number][day],
            waiting=waiting[number][day],
            preemptions=int(counts[number, day]),
        )
        for number, project in enumerate(loop.setup.projects)
        for day in range(len(starts))
    ]
