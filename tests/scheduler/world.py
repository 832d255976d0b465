"""A small cluster for tests: facts in a line each, decisions checked by the invariants.

Everything is in GPUs, seconds and percent; the clock starts at T0 and only `wait` moves it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from scheduler import events, invariants
from scheduler.bookings import read_bookings, write_bookings
from scheduler.decide import decide
from scheduler.state import State
from scheduler.types import (
    NEVER,
    PPM,
    Attempts,
    BoolArray,
    CapacitySteps,
    Decision,
    EndedTakers,
    ExpressStarts,
    Hosts,
    IntArray,
    Lapse,
    Mature,
    Pending,
    Placements,
    Policy,
    Preempt,
    ProjectBalance,
    Projects,
    Reason,
    Reserved,
    Return,
    Segments,
    ShareSteps,
    Snapshot,
    Standing,
    Start,
)

T0 = 1_790_000_000
HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY

FLAGS = {"schedulable", "resumable", "allow_unallocated", "first_start", "express", "lapsed", "cancelled"}


def table(kind: Any, rows: list[dict[str, Any]] | None = None) -> Any:
    """A table from rows; flags are those of FLAGS, the rest are numbers."""
    rows = rows or []
    columns = {}
    for entry in fields(kind):
        flag = entry.name in FLAGS
        columns[entry.name] = np.array([row[entry.name] for row in rows], dtype=bool if flag else np.int64)
    return kind(**columns)


class World:
    """One cluster: projects, hosts, workloads; `decide` takes a decision, `go` applies it too."""

    def __init__(self, hosts: int = 1, gpus: int = 8, blocks: int = 1, **policy: Any) -> None:
        self.policy = Policy(**policy)
        self.names: dict[str, int] = {"root": 0}
        self.parents = [NEVER]
        self.shares: list[dict[str, int]] = []
        self.hosts = [{"id": 100 + n, "gpus": gpus, "schedulable": True, "block": n % blocks} for n in range(hosts)]
        self.capacity = [{"at": T0 - 2 * WEEK, "gpus": hosts * gpus}]
        self.next_workload = 1000
        self.reserves = True
        self._state: State | None = None

    # ------------------------------------------------ facts

    def project(
        self, name: str, percent: float | None, parent: str = "root", burst: int = NEVER, at: int = T0 - 2 * WEEK
    ) -> int:
        """A project and its first budget (None: none), before the world moves."""
        self.names[name] = len(self.parents)
        self.parents.append(self.names[parent])
        if percent is not None:
            self.budget(name, percent, burst, at)
        return self.names[name]

    def budget(self, name: str, percent: float, burst: int = NEVER, at: int | None = None) -> None:
        """A budget step."""
        row = {"project": self.names[name], "at": self.now if at is None else at}
        self.shares.append({**row, "share_ppm": round(percent * PPM / 100), "burst_gpus": burst})
        if self._state is not None:
            self._state.shares = table(ShareSteps, self.shares)

    @property
    def state(self) -> State:
        """The kept state; made at the first use, when projects and hosts are known."""
        if self._state is None:
            ids = [{"id": 10 + number, "parent": parent} for number, parent in enumerate(self.parents)]
            self._state = State(
                Snapshot(
                    now=T0,
                    projects=table(Projects, ids),
                    shares=table(ShareSteps, self.shares),
                    capacity=table(CapacitySteps, self.capacity),
                    hosts=table(Hosts, self.hosts),
                    pending=table(Pending),
                    attempts=table(Attempts),
                    placements=table(Placements),
                    paths=(),
                    charged=table(Segments),
                    unallocated=table(Segments),
                    express=table(ExpressStarts),
                    takers=table(EndedTakers),
                    reserved=write_bookings([], []) if self.reserves else None,
                )
            )
        return self._state

    @property
    def size(self) -> int:
        """Projects, the root included."""
        return len(self.parents)

    def last_budget_at(self, project: int) -> int:
        """When its present budget was given."""
        return max(row["at"] for row in self.shares if row["project"] == project)

    @property
    def now(self) -> int:
        """The clock."""
        return self._state.now if self._state else T0

    def wait(self, seconds: int) -> None:
        """Time passes."""
        events.advance(self.state, self.now + seconds)

    def submit(self, project: str, gpus: int = 1, contract: int = 2 * HOUR, **more: Any) -> int:
        """A workload; its id. `more` are columns of Pending."""
        self.next_workload += 1
        row = {
            "id": self.next_workload,
            "project": self.names[project],
            "author": 1,
            "first_submit_at": self.now,
            "queued_at": self.now,
            "replicas": 1,
            "gpus_per_replica": gpus,
            "min_runtime_seconds": contract,
            "resumable": True,
            "allow_unallocated": True,
            "priority": 0,
            "first_start": True,
        }
        events.submit(self.state, {**row, **more})
        return self.next_workload

    def charge(
        self, project: str, gpu_seconds: int, author: int = 1, ago: int = HOUR, standing: str = "charged"
    ) -> None:
        """Past usage: that many GPU-seconds, ended `ago` seconds ago, each segment at most a day long."""
        gpus = max(1, -(-gpu_seconds // DAY))
        whole, rest = divmod(gpu_seconds, gpus)
        ledger = getattr(self.state, standing)
        row = {"path": self.state.path_number(self.names[project]), "author": author, "end_at": self.now - ago}
        ledger.add({**row, "start_at": self.now - ago - whole, "gpus": gpus})
        if rest:
            ledger.add({**row, "start_at": self.now - ago - rest, "gpus": 1})

    def run(
        self,
        project: str,
        gpus: int = 1,
        contract: int = 2 * HOUR,
        ran: int = 0,
        standing: Standing = Standing.PROTECTED,
        on: dict[int, int] | None = None,
        **more: Any,
    ) -> int:
        """An attempt that already runs, on hosts {number: replicas}; its id."""
        state = self.state
        attempt = state.next_attempt
        state.next_attempt += 1
        self.next_workload += 1
        places = on or {0: 1}
        at = self.now - ran
        row = {
            "id": attempt,
            "workload": self.next_workload,
            "project": self.names[project],
            "author": 1,
            "priority": 0,
            "first_submit_at": at,
            "queued_at": at,
            "first_start": True,
            "replicas": sum(places.values()),
            "gpus_per_replica": gpus,
            "contract_seconds": contract,
            "resumable": True,
            "allow_unallocated": True,
            "express": False,
            "decided_at": at,
            "segments_at": at,
            "segment_at": at,
            "running_at": at,
            "stopping_at": NEVER,
            "grace_seconds": 0,
            "standing": standing,
            "lapsed": False,
            "last_checkpoint_at": NEVER,
            "taker": NEVER,
        }
        state.attempts.add({**row, **more})
        state.places[attempt] = dict(places)
        return attempt

    # ------------------------------------------------ decisions

    def decide(self) -> Decision:
        """A decision, checked."""
        decision = decide(self.state, self.policy)
        invariants.check(self.state, decision)
        return decision

    def go(self) -> Decision:
        """A decision, checked and applied; taken again it is empty."""
        decision = self.decide()
        events.apply(self.state, decision)
        again = self.decide()
        assert again.actions == (), f"decided again at the same instant: {again.actions}"
        return decision

    def start_all(self) -> None:
        """Whatever was assigned runs now."""
        attempts = self.state.attempts
        fresh = (attempts["segments_at"] != NEVER) & (attempts["running_at"] == NEVER)
        for attempt in attempts["id"][fresh & (attempts["stopping_at"] == NEVER)].tolist():
            events.run(self.state, attempt)

    def free_stopped(self) -> None:
        """Hosts say that everything that was told to stop is gone; resumable work is requeued."""
        attempts = self.state.attempts
        for attempt in attempts["id"][attempts["stopping_at"] != NEVER].tolist():
            again = bool(attempts["resumable"][attempts.find("id", attempt)])
            events.end(self.state, attempt, requeue=again)

    def attempt_of(self, workload: int) -> dict[str, int]:
        """The row of a workload's attempt."""
        attempts = self.state.attempts
        return attempts.row(attempts.find("workload", workload))

    def standing_of(self, attempt: int) -> Standing:
        """The standing that an attempt has now."""
        attempts = self.state.attempts
        return Standing(int(attempts["standing"][attempts.find("id", attempt)]))


def started(decision: Decision, standing: Standing | None = None) -> list[int]:
    """Workloads started, in order."""
    starts = [action for action in decision.actions if isinstance(action, Start)]
    return [start.workload for start in starts if standing in (None, start.standing)]


def start_of(decision: Decision, workload: int) -> Start:
    """The start of one workload."""
    return next(one for one in decision.actions if isinstance(one, Start) and one.workload == workload)


def preempted(decision: Decision) -> list[int]:
    """Attempts told to stop, in order."""
    return [action.attempt for action in decision.actions if isinstance(action, Preempt)]


def lapsed(decision: Decision) -> list[int]:
    """Attempts that lapsed."""
    return [action.attempt for action in decision.actions if isinstance(action, Lapse)]


def matured(decision: Decision) -> list[int]:
    """Attempts whose contract was over."""
    return [action.attempt for action in decision.actions if isinstance(action, Mature)]


def returned(decision: Decision) -> dict[int, Standing]:
    """Attempts that returned, and to which standing."""
    return {action.attempt: action.standing for action in decision.actions if isinstance(action, Return)}


def wait_of(decision: Decision, workload: int) -> Reason:
    """Why a workload waits."""
    return next(wait.reason for wait in decision.waits if wait.workload == workload)


def balance_of(world: World, name: str, own: bool = False) -> ProjectBalance:
    """A project's figures."""
    number = 10 + world.names[name]
    return next(one for one in world.decide().balances if one.project == number and one.own == own)


def shuffle(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same facts with the rows of every table in another order."""
    rng = np.random.default_rng(seed)
    orders = {name: rng.permutation(len(getattr(snapshot, name).id)) for name in ("projects", "hosts", "attempts")}
    moved = {name: np.argsort(order) for name, order in orders.items()}

    def take(record: Any, order: IntArray | None = None, **pointers: str) -> Any:
        names = [entry.name for entry in fields(record)]
        order = rng.permutation(len(getattr(record, names[0]))) if order is None else order
        columns: dict[str, IntArray | BoolArray] = {name: getattr(record, name)[order] for name in names}
        for name, target in pointers.items():
            old = columns[name]
            columns[name] = np.array([moved[target][one] if one >= 0 else one for one in old], dtype=np.int64)
        return type(record)(**columns)

    return Snapshot(
        now=snapshot.now,
        projects=take(snapshot.projects, orders["projects"], parent="projects"),
        shares=take(snapshot.shares, project="projects"),
        capacity=take(snapshot.capacity),
        hosts=take(snapshot.hosts, orders["hosts"]),
        pending=take(snapshot.pending, project="projects"),
        attempts=take(snapshot.attempts, orders["attempts"], project="projects"),
        placements=take(snapshot.placements, attempt="attempts", host="hosts"),
        paths=snapshot.paths,
        charged=take(snapshot.charged),
        unallocated=take(snapshot.unallocated),
        express=take(snapshot.express),
        takers=take(snapshot.takers),
        draining=rng.permutation(snapshot.draining),
        reserved=_shuffle_reserved(snapshot, moved["hosts"], rng),
    )


def _shuffle_reserved(snapshot: Snapshot, moved: IntArray, rng: np.random.Generator) -> Reserved | None:
    if snapshot.reserved is None:
        return None
    bookings = [one.copy(moved.tolist()) for one in read_bookings(snapshot.reserved)]
    cancelled = snapshot.reserved.cancelled
    gone = list(zip(cancelled.author.tolist(), cancelled.cancelled_at.tolist(), strict=True))
    return write_bookings([bookings[row] for row in rng.permutation(len(bookings))], gone)
