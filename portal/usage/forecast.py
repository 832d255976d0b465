"""Where a project's balance goes from now on, as far as it is known. Pure: the core's own sums, at later moments.

Known are the ledger, the budgets (also those that take effect later), the hosts as they stand now, and what runs.
Not known is what will start. So the forecast is a range between two courses:

- *quiet*: nothing more starts, and what runs ends with its minimum runtime. No balance above the root is higher,
  unless hosts are added or time is given back after a fault.
- *going on*: nothing more starts, and what is charged now goes on, each to its timeout.

R2 at a later moment t, with W the window [t - L, t]:
Q(t) as ever, with the schedulable GPUs of now for the time after now, and the shares then in force;
U(t) = what was charged before now in W, and what runs: quiet, its whole remaining minimum runtime, as now;
going on, the longer of that and its time from now to t. With a half-life each second weighs by its age at t.

A range stops where nothing more is known:
- *exhausted*: going on, a project on the path has balance 0 or less: what runs lapses then (R6);
- *recovers*: a project on the path has balance 0 or less now; quiet, the last such is above 0 again: work starts then;
- *no budget*: a project on the path has no share from then on;
- *window*: a lookback window from now: by then none of what is known counts any more.
While a balance on the path is 0 or less, what is past its minimum runtime lapses: both courses are the quiet one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from scheduler.balance import Capacity, build_tree, compute_quotas, list_present_shares
from scheduler.policy import Policy
from scheduler.types import NEVER, PPM, Projects, ShareSteps
from scheduler.usage import Rows, Window, clip_rows, sum_groups

STEPS = 56  # of the lookback window: 3 hours of 7 days


class Stop(StrEnum):
    """Why a forecast goes no further."""

    EXHAUSTED = "exhausted"
    RECOVERS = "recovers"
    NO_BUDGET = "no_budget"
    WINDOW = "window"


@dataclass(frozen=True)
class Running:
    """An attempt that is charged, or has GPUs held for it: it counts for every project of `path`, root first."""

    path: tuple[int, ...]
    gpus: int
    contract_ends_at: int  # as if it began to run now, if it does not run yet
    ends_at: int | None  # its timeout; None: it has none


@dataclass(frozen=True)
class Known:
    """All that a forecast depends on. Moments are epoch seconds; `path` is the project's, root first.

    `charged`: for each project of the path but the root, what was charged to it up to now: start, end, GPUs.
    `shares`: (project, at, ppm) of the projects on the path, also later ones; `capacity`: (at, schedulable GPUs).
    """

    now: int
    path: tuple[int, ...]
    policy: Policy
    shares: Sequence[tuple[int, int, int]]
    capacity: Sequence[tuple[int, int]]
    charged: Mapping[int, Rows]
    running: Sequence[Running] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    """The project's balance at a moment, in parts per million of its quota then: quiet, and going on."""

    at: int
    quiet_ppm: int
    going_ppm: int


@dataclass(frozen=True)
class Forecast:
    """Points from now on, in order; none if the project has no budget now. `project`: whose balance it stops for."""

    points: list[Point]
    stop: Stop
    stops_at: int
    project: int


def balance_forecast(known: Known) -> Forecast:
    """See the module. The last point is the moment at which it stops, exact to the second. Not for the root."""
    course = _Course(known)
    own = known.path[-1]
    first = course.at(known.now)
    unfunded = _unfunded(first)
    if unfunded is not None:
        return Forecast([], Stop.NO_BUDGET, known.now, unfunded)
    short = any(pair is not None and pair[1] <= 0 for pair in first.values())
    points = [_point(known.now, first[own], short)]
    for moment in course.moments:
        stop = course.stop_at(moment, short)
        if stop is not None:
            at = course.first_moment(points[-1].at, moment, short)
            reason, project = course.stop_at(at, short) or stop
            if reason != Stop.NO_BUDGET:
                points.append(_point(at, course.at(at)[own], short))
            return Forecast(points, reason, at, project)
        points.append(_point(moment, course.at(moment)[own], short))
    return Forecast(points, Stop.WINDOW, points[-1].at, own)


Pair = tuple[int, int]  # quiet and going on


def _point(at: int, pair: Pair | None, short: bool) -> Point:
    quiet, going = pair or (0, 0)
    return Point(at, quiet, quiet if short else going)


def _unfunded(balances: Mapping[int, Pair | None]) -> int | None:
    """The topmost project without a share; None: each has one."""
    return next((project for project, pair in balances.items() if pair is None), None)


class _Course:
    """Balances of the projects on the path at any later moment."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._nodes = {project: row for row, project in enumerate(known.path)}
        self._below_root = known.path[1:]
        parents = np.array([NEVER, *range(len(known.path) - 1)], dtype=np.int64)
        rows = [(self._nodes[project], at, ppm) for project, at, ppm in known.shares if project in self._nodes]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
        never = np.full(len(rows), NEVER, dtype=np.int64)
        self._tree = build_tree(
            Projects(id=np.array(known.path, dtype=np.int64), parent=parents),
            ShareSteps(project=columns[:, 0], at=columns[:, 1], share_ppm=columns[:, 2], burst_gpus=never),
        )
        self._known_balances: dict[int, dict[int, Pair | None]] = {}

    @cached_property
    def moments(self) -> list[int]:
        """After now: steps of the window, and the known changes of budgets, which bend the line."""
        now, window = self.known.now, self.known.policy.lookback_seconds
        steps = {now + window * step // STEPS for step in range(1, STEPS + 1)}
        changes = {at for _, at, _ in self.known.shares if now < at < now + window}
        return sorted(steps | changes)

    def at(self, moment: int) -> dict[int, Pair | None]:
        """Project below the root -> its balances in ppm, rounded down as R2's; None: never funded."""
        if moment not in self._known_balances:
            self._known_balances[moment] = self._balances(moment)
        return self._known_balances[moment]

    def _balances(self, moment: int) -> dict[int, Pair | None]:
        policy = self.known.policy
        window = Window(moment - policy.lookback_seconds, moment, policy.half_life_seconds)
        quotas = compute_quotas(self._tree, Capacity(self.known.capacity, window), policy)
        shares = list_present_shares(self._tree, moment)
        found: dict[int, Pair | None] = {}
        for project in self._below_root:
            node = self._nodes[project]
            top, bottom = quotas[node]
            quiet, going = (self._usage(project, window, goes_on) for goes_on in (False, True))
            is_funded = top > 0 and shares[node] > 0
            found[project] = (_ppm(top, bottom, quiet), _ppm(top, bottom, going)) if is_funded else None
        return found

    def _usage(self, project: int, window: Window, goes_on: bool) -> int:
        """U(t) of a project: charged in the window up to t, and what of minimum runtimes is left after t."""
        mine = [each for each in self.known.running if project in each.path]
        ends = [self._charged_until(each, window.now, goes_on) for each in mine]
        past, now = self.known.charged[project], self.known.now
        rows = Rows(
            path=np.zeros(len(past.gpus) + len(mine), dtype=np.int64),
            author=np.zeros(len(past.gpus) + len(mine), dtype=np.int64),
            start_at=np.append(past.start_at, np.full(len(mine), now, dtype=np.int64)),
            end_at=np.append(past.end_at, np.array(ends, dtype=np.int64)),
            gpus=np.append(past.gpus, np.array([each.gpus for each in mine], dtype=np.int64)),
        )
        inside = clip_rows(rows, window)
        unserved = sum(each.gpus * max(each.contract_ends_at - max(window.now, now), 0) for each in mine)
        return sum_groups(inside.path, 1, inside, window)[0] + unserved

    def _charged_until(self, each: Running, moment: int, goes_on: bool) -> int:
        end = max(each.contract_ends_at, self.known.now)
        if goes_on:
            end = max(end, moment if each.ends_at is None else each.ends_at)
        return min(end, moment)

    def stop_at(self, moment: int, short: bool) -> tuple[Stop, int] | None:
        """Whether the forecast is over by then, and for whom; `short`: a balance on the path is 0 or less now."""
        balances = self.at(moment)
        unfunded = _unfunded(balances)
        if unfunded is not None:
            return Stop.NO_BUDGET, unfunded
        low = {project: pair[0 if short else 1] for project, pair in balances.items() if pair is not None}
        if short:
            return (Stop.RECOVERS, min(low, key=lambda project: low[project])) if min(low.values()) > 0 else None
        spent = [project for project, ppm in low.items() if ppm <= 0]
        return (Stop.EXHAUSTED, spent[0]) if spent else None

    def first_moment(self, low: int, high: int, short: bool) -> int:
        """The first second of (low, high] at which it is over: between two neighbouring moments it turns but once."""
        while high - low > 1:
            middle = (low + high) // 2
            if self.stop_at(middle, short) is None:
                low = middle
            else:
                high = middle
        return high


def _ppm(top: int, bottom: int, usage: int) -> int:
    return (top - usage * bottom) * PPM // top
