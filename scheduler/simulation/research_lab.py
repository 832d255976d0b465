"""The generator `research-lab`: a laboratory that always asks for more than there is (SPEC.md section 11).

- A closed loop: each team, outside its idle weeks, keeps GPUs waiting worth 2.5 x its share of the
  cluster: every 20 minutes somebody looks, and submits the next jobs of the team's stream while
  they fit under that. What waits again after a preemption counts as waiting. So does what the team
  runs beyond its part of the whole cluster (its share over all teams' shares): those GPUs are lent,
  their work comes back to the queue, and people know it. Without this, a team that returns from an
  idle week and runs seven times its share for some days submits seven times its usual work in them,
  and has all of it waiting for weeks after (measured: 5.7 x its target). So nobody has more begun
  and waiting than 2.5 x its share and its part together.
- 15 % of the jobs have an author who would rather give no minimum runtime. Such work runs on idle
  GPUs only, so it would pile up until it is all that waits (measured: four fifths after two weeks);
  a team that sees that asks for contracts. So while a team's unfinished workloads of minimum
  runtime 0 have as many GPUs as their 15 % of its backlog, the next job takes the contract that was
  drawn for it. What runs of them counts, since it can be back in the queue at any moment.
- In an idle week (4 % of weeks: conferences, holidays, a deadline behind) a team submits nothing;
  what it had waiting runs down, which takes a day or two.
- Debug workloads arrive on their own, at random times in working hours, 9 to 19 h, at weekends at
  45 % of a weekday's rate: a little more than one per GPU and day on average, shared out among the
  teams that are there by their number of users.
- Hosts fail at random, 3 times a host and year (Llama 3's 54 days saw 1.4 for hardware alone on
  2,000 hosts; drivers, fabric and file systems about double it), and are back after 1 h plus an
  exponential repair time, 8 h together on average.

Every part is drawn from a child of its own of the seed's generator, so that the k-th job of a team
(but for whether it takes its contract), the debug arrivals and the failures are the same whatever
the policy: a what-if compares like with like, as far as a closed loop can.
"""

from __future__ import annotations

import numpy as np

from scheduler.simulation.parts import FOREVER
from scheduler.simulation.setup import HostChange, HostEvent, ResearchLab, Setup
from scheduler.simulation.teams import (
    DEBUG_CONTRACTS,
    DEBUG_CONTRACTS_WEIGHT,
    DEBUG_GPUS,
    DEBUG_GPUS_WEIGHT,
    DEBUG_SHORTEST_SECONDS,
    Job,
    Stream,
    pick,
    share_users,
    weigh_users,
)
from scheduler.simulation.tree import list_leaves, list_present_shares
from scheduler.simulation.work import Work
from scheduler.types import PPM, IntArray

HOUR, DAY = 3600, 86400
WEEK = 7 * DAY
YEAR = 365 * DAY

LOOK_SECONDS = 20 * 60
WORK_FROM_SECONDS, WORK_SECONDS = 9 * HOUR, 10 * HOUR
WEEKEND_PART = 0.45
SHORTEST_REPAIR_SECONDS = HOUR
ID_SPACING = 1 << 10
"""More than there can be teams: ids tell team and place in its stream."""


class ResearchLabSource:
    """The work of one run."""

    too_large = 0
    cut = 0

    def __init__(self, setup: Setup, lab: ResearchLab) -> None:
        self.setup, self.lab = setup, lab
        self.teams = list_leaves(setup)
        shares = list_present_shares(setup, 0)
        self.shares = [shares[team] for team in self.teams]
        self.target = [round(lab.backlog_factor * share * setup.gpus / PPM) for share in self.shares]
        self.part = [share * setup.gpus / max(sum(self.shares), 1) for share in self.shares]
        end = setup.end_at or WEEK
        root = np.random.default_rng(setup.seed)
        calendar, debug, faults, *streams = root.spawn(3 + len(self.teams))
        self.idle = calendar.random((len(self.teams), -(-end // WEEK))) < lab.idle_week_fraction
        people = share_users(lab.users, self.shares)
        first = np.concatenate([[0], np.cumsum(people)]).tolist()
        self.users = [list(range(first[team] + 1, first[team + 1] + 1)) for team in range(len(self.teams))]
        self.streams = [
            Stream(setup, lab, share, users, one)
            for share, users, one in zip(self.shares, self.users, streams, strict=True)
        ]
        self.drawn = [0] * len(self.teams)
        self.unfinished: list[list[Work]] = [[] for _ in self.teams]  # debug workloads left aside
        self.debug = self._draw_debug(debug, end)
        self.place = 0
        self.refill_at = 0
        self.waiting_gpus: list[int] = [0] * len(setup.projects)
        self.waiting_debug: list[int] = self.waiting_gpus
        self.host_events = draw_failures(setup, lab, faults, end)

    # ------------------------------------------------ the source

    def next_at(self) -> int:
        """The next debug workload or refill."""
        at = self.debug[self.place].submit_at if self.place < len(self.debug) else FOREVER
        return min(at, self.refill_at)

    def take(self, now: int) -> list[Work]:
        """What is submitted now."""
        works = []
        while self.place < len(self.debug) and self.debug[self.place].submit_at <= now:
            works.append(self.debug[self.place])
            self.place += 1
        if self.refill_at <= now:
            self.refill_at = (now // WEEK + 1) * WEEK  # who comes back from an idle week starts again
            for team in range(len(self.teams)):
                works += self._refill(team, now)
        return works

    def follow(self, now: int, waiting_gpus: list[int], waiting_debug: list[int]) -> None:
        """After a pass: whoever has too little waiting submits when somebody looks."""
        self.waiting_gpus, self.waiting_debug = waiting_gpus, waiting_debug
        week = now // WEEK
        for team in range(len(self.teams)):
            short = self.target[team] - self._count_waiting(team)
            if not self.idle[team, week] and self._is_short(team, short):
                self.refill_at = min(self.refill_at, (now // LOOK_SECONDS + 1) * LOOK_SECONDS)
                return

    def _refill(self, team: int, now: int) -> list[Work]:
        if self.idle[team, now // WEEK]:
            return []
        works: list[Work] = []
        unfinished = self.unfinished[team] = [work for work in self.unfinished[team] if not work.over]
        short = self._measure_shortage(team)
        bare_short = self.lab.zero_min_runtime_fraction * self.target[team]
        bare_short -= sum(work.gpus for work in unfinished if work.min_runtime == 0)
        while self._is_short(team, short):
            job = self.streams[team].next()
            number = 2 * (self.drawn[team] * ID_SPACING + team)
            self.drawn[team] += 1
            bare = job.without_contract and bare_short > 0
            works.append(self._make(number, team, job, now, bare=bare))
            short -= job.gpus
            bare_short -= job.gpus * bare
        unfinished += works
        return works

    def _measure_shortage(self, team: int) -> float:
        """GPUs by which the team's backlog is below its target: what waits, and what runs beyond its part."""
        waiting = self._count_waiting(team)
        running = sum(work.gpus for work in self.unfinished[team]) - waiting
        return self.target[team] - waiting - max(running - self.part[team], 0.0)

    def _count_waiting(self, team: int) -> int:
        """GPUs for which the team waits, debug workloads left aside."""
        project = self.teams[team]
        return self.waiting_gpus[project] - self.waiting_debug[project]

    def _is_short(self, team: int, short: float) -> bool:
        """Whether the next job still fits under the target."""
        return short >= self.streams[team].peek().gpus

    def _make(self, number: int, team: int, job: Job, now: int, bare: bool = False, debug: bool = False) -> Work:
        contracts, per_host = self.setup.contracts, int(self.setup.hosts.gpus.max())
        replicas = -(-job.gpus // per_host)
        work = Work(
            id=number,
            project=self.teams[team],
            user=job.user,
            submit_at=now,
            duration=job.duration_seconds,
            replicas=replicas,
            gpus_per_replica=-(-job.gpus // replicas),
            min_runtime=self._bound(0 if bare else job.min_runtime_seconds),
            resumable=contracts.resumable,
            unallocated=True,
            priority=job.priority,
            checkpoint_interval=contracts.checkpoint_interval_seconds,
        )
        work.kind = 0 if debug else 1 if job.gpus <= 8 else 2
        return work

    def _bound(self, contract_seconds: int) -> int:
        """What people would ask for, within the policy's bounds (R14); 0 stays 0 where it is allowed."""
        policy = self.setup.policy
        return min(max(contract_seconds, policy.min_runtime_min_seconds), policy.min_runtime_max_seconds)

    # ------------------------------------------------ what is drawn at the start

    def _draw_debug(self, draw: np.random.Generator, end: int) -> list[Work]:
        """All debug workloads of the run, by time."""
        weekday = self.lab.debug_per_gpu_day * self.setup.gpus * 7 / (5 + 2 * WEEKEND_PART)
        people = np.array([len(users) for users in self.users], dtype=np.float64)
        works: list[Work] = []
        for day in range(-(-end // DAY)):
            rate = weekday * (WEEKEND_PART if day % 7 >= 5 else 1.0)
            there = people * ~self.idle[:, day // 7]
            if not there.any():
                continue
            count = int(draw.poisson(rate))
            teams = draw.choice(len(people), count, p=there / there.sum())
            at = day * DAY + WORK_FROM_SECONDS + np.sort(draw.integers(0, WORK_SECONDS, count))
            jobs = self._draw_debug_jobs(draw, teams)
            for team, when, job in zip(teams.tolist(), at.tolist(), jobs, strict=True):
                works.append(self._make(2 * len(works) + 1, team, job, when, debug=True))
        return [work for work in works if work.submit_at < end]

    def _draw_debug_jobs(self, draw: np.random.Generator, teams: IntArray) -> list[Job]:
        """One a row of `teams`. Most end early; none runs longer than twice its minimum runtime."""
        size, contract, length, user = draw.random((4, len(teams)))
        users = np.zeros(len(teams), dtype=np.int64)
        for team, there in enumerate(self.users):
            mine = teams == team
            users[mine] = pick(there, weigh_users(len(there)).tolist(), user[mine])
        seconds = pick(DEBUG_CONTRACTS, DEBUG_CONTRACTS_WEIGHT, contract)
        gpus = pick(DEBUG_GPUS, DEBUG_GPUS_WEIGHT, size)
        duration = np.maximum(np.rint(2 * seconds * length).astype(np.int64), DEBUG_SHORTEST_SECONDS)
        columns = (users, gpus, duration, seconds, np.zeros_like(users), np.zeros_like(users))
        return [Job(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def draw_failures(setup: Setup, lab: ResearchLab, draw: np.random.Generator, end: int) -> list[HostEvent]:
    """Hosts that fail and come back, by host and time."""
    events = []
    rate = lab.host_failures_per_host_year / YEAR
    for host in range(len(setup.hosts.gpus)):
        at = 0.0
        while rate > 0:
            at += float(draw.exponential(1 / rate))
            if at >= end:
                break
            longer = max(lab.host_repair_seconds - SHORTEST_REPAIR_SECONDS, 1)
            repair = SHORTEST_REPAIR_SECONDS + int(draw.exponential(longer))
            events.append(HostEvent(host, int(at), HostChange.FAIL, repair))
            at += repair
    return events
