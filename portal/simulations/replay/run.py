"""The loop of a replay: the real services in virtual time, with host stubs that obey and report."""

import heapq
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter

from portal.common.errors import Refused
from portal.scheduling.desired import desired_of_hosts
from portal.scheduling.models import Pass, Reservation
from portal.scheduling.observe import report_apply
from portal.scheduling.services import pass_run
from portal.simulations.replay.jobs import Job
from portal.simulations.replay.stub import HostStub, Work
from portal.simulations.replay.world import World, moment
from portal.workloads.services import workload_submit

GRID_SECONDS = 10
HOUR_SECONDS = 3600


def grid(second: int) -> int:
    """The point of the passes' grid at or after a second."""
    return -(-second // GRID_SECONDS) * GRID_SECONDS


@dataclass
class Replay:
    """One run up to `end` seconds. Passes are made where something was submitted, ended or reached a contract's end,
    and where a reservation's time comes."""

    world: World
    jobs: list[Job]
    end: int
    progress: Callable[[str], None]
    stubs: dict[int, HostStub] = field(default_factory=dict)
    works: dict[int, Work] = field(default_factory=dict)
    minimums: dict[int, int] = field(default_factory=dict)
    passes: list[Pass] = field(default_factory=list)
    pass_seconds: float = 0.0
    submitted: int = 0
    refused: int = 0
    _told: set[int] = field(default_factory=set)
    _wakes: list[int] = field(default_factory=list)
    _planned: set[int] = field(default_factory=set)
    _exits: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> None:
        """Seconds in their order; at each: ends, then submissions, then the pass."""
        self.stubs = {pk: HostStub(host.gpus, self.works) for pk, host in self.world.hosts.items()}
        waiting = list(reversed(self.jobs))
        hour = 0
        while (now := self._next(waiting)) is not None and now < self.end:
            if now // HOUR_SECONDS > hour:
                hour = now // HOUR_SECONDS
                self.progress(f"hour {hour}: {self.submitted} submitted, {len(self.passes)} passes")
            self._exits_take(now)
            while waiting and waiting[-1].submit_seconds == now:
                self._submit(waiting.pop(), now)
            if self._wakes and self._wakes[0] == now:
                heapq.heappop(self._wakes)
                self._pass(now)

    def _next(self, waiting: list[Job]) -> int | None:
        times = [queue[0] for queue in (self._wakes,) if queue]
        times += [self._exits[0][0]] if self._exits else []
        times += [waiting[-1].submit_seconds] if waiting else []
        return min(times, default=None)

    def _wake(self, second: int) -> None:
        """A pass is needed at the grid point at or after this second."""
        point = grid(second)
        if point not in self._planned:
            self._planned.add(point)
            heapq.heappush(self._wakes, point)

    def _exits_take(self, now: int) -> None:
        hosts = set()
        while self._exits and self._exits[0][0] <= now:
            hosts.add(heapq.heappop(self._exits)[1])
        reporting = [host for host in sorted(hosts) if self.stubs[host].exit_due(now)]
        if reporting:
            self._wake(now)
        self._reports(reporting, now)

    def _submit(self, job: Job, now: int) -> None:
        try:
            workload, _ = workload_submit(
                author=self.world.authors[job.project, job.user],
                now=moment(now),
                project=self.world.projects[job.project],
                clusters=[self.world.cluster.name],
                name=job.job_id,
                command=["replay", job.job_id],
                replicas=job.replicas,
                gpus_per_replica=job.gpus_per_replica,
                min_runtime_seconds=job.min_runtime_seconds,
                resumable=job.resumable,
                priority=job.priority,
            )
        except Refused as refusal:
            self.refused += 1
            self.progress(f"job {job.job_id} is refused: {refusal.detail}")
            return
        self.works[workload.pk] = Work(job.duration_seconds)
        self.minimums[workload.pk] = job.min_runtime_seconds
        self.submitted += 1
        self._wake(now)

    def _pass(self, now: int) -> None:
        started = perf_counter()
        done = pass_run(cluster=self.world.cluster, now=moment(now), tell=self._tell)
        self.pass_seconds += perf_counter() - started
        if done is None:
            raise AssertionError("Another pass is under way in the replay's own database.")
        self.passes.append(done)
        kept = Reservation.objects.filter(cluster=self.world.cluster, ended_at=None, at__gt=done.now_at)
        for at in kept.values_list("at", flat=True):
            self._wake(now + int((at - done.now_at).total_seconds()))
        self._reports(self._obey(now), now)

    def _tell(self, hosts: Collection[int], now: datetime) -> None:
        self._told |= set(hosts)

    def _reports(self, hosts: list[int], now: int) -> None:
        """Hosts report; what they are told thereupon they obey and report, until nothing is new."""
        while hosts:
            for host in hosts:
                report = self.stubs[host].report(now)
                report_apply(host=self.world.hosts[host], report=report, now=moment(now), tell=self._tell)
            hosts = self._obey(now)

    def _obey(self, now: int) -> list[int]:
        """Give the hosts that were told their desired state; returns those that have something to say."""
        told, self._told = sorted(self._told), set()
        talking = []
        for host, desired in (desired_of_hosts(hosts=told) if told else {}).items():
            stub = self.stubs[host]
            if stub.obey(desired, now):
                talking.append(host)
                self._contracts_watch([entry["workload"] for entry in desired], now)
            if (ends_at := stub.next_exit()) is not None:
                heapq.heappush(self._exits, (ends_at, host))
        return talking

    def _contracts_watch(self, workloads: list[int], now: int) -> None:
        """Gangs that start now reach their contracts' ends then, if they last."""
        for workload in workloads:
            if self.minimums[workload]:
                self._wake(now + self.minimums[workload])
