"""A host that is none: it obeys desired states and reports like an agent, in virtual time, and runs nothing.

`HostStub` stands in for the agent of every host of a replay and says so in its reports. It keeps its own account of
what it ran, from the moment it was told to the moment it said that the GPUs are free: the ledger is held against it.
"""

from dataclasses import dataclass, field

from portal.common.messages import DesiredAttempt, ReplicaReport, ReportBody

STUB_NAME = "host stub (replay)"
STOP_SECONDS = 5
"""How long its processes take to end once they are warned."""
STOPPED_EXIT_CODE = 143
RESTART_OVERHEAD_SECONDS = 180
CHECKPOINT_INTERVAL_SECONDS = 1800


@dataclass
class Work:
    """What is left of a workload: it resumes from its last checkpoint, after an overhead."""

    seconds: int
    saved_seconds: int = 0
    interrupted_by: set[int] = field(default_factory=set)

    def needed_seconds(self) -> int:
        """How long the next attempt would run to the end."""
        return max(self.seconds - self.saved_seconds, 1) + self._overhead()

    def interrupt(self, attempt: int, ran_seconds: int) -> None:
        """Only what was saved counts; the next attempt starts with an overhead. Each host of a gang says it once."""
        if attempt in self.interrupted_by:
            return
        done = max(ran_seconds - self._overhead(), 0)
        self.saved_seconds += done // CHECKPOINT_INTERVAL_SECONDS * CHECKPOINT_INTERVAL_SECONDS
        self.interrupted_by.add(attempt)

    def checkpointed_ago(self, ran_seconds: int) -> int | None:
        """Seconds since the last checkpoint of the present attempt."""
        done = ran_seconds - self._overhead()
        return done % CHECKPOINT_INTERVAL_SECONDS if done >= CHECKPOINT_INTERVAL_SECONDS else None

    def _overhead(self) -> int:
        return RESTART_OVERHEAD_SECONDS if self.interrupted_by else 0


@dataclass
class Process:
    """The replicas of one attempt on this host."""

    attempt: int
    work: Work
    replicas: dict[int, int]
    started_at: int
    ends_at: int
    is_stopping: bool = False
    has_exited: bool = False

    @property
    def gpus(self) -> int:
        return sum(self.replicas.values())


@dataclass
class HostStub:
    """One host of a replay. Moments are whole seconds of the replay's clock."""

    gpus: int
    works: dict[int, Work]
    processes: dict[int, Process] = field(default_factory=dict)
    occupied_gpu_seconds: int = 0

    def obey(self, desired: list[DesiredAttempt], now: int) -> bool:
        """Do what is desired; returns whether there is something to report."""
        listed = {entry["attempt"]: entry for entry in desired}
        forgotten = [pk for pk, process in self.processes.items() if process.has_exited and pk not in listed]
        for pk in forgotten:
            del self.processes[pk]
        news = False
        for pk, entry in listed.items():
            if pk not in self.processes and entry["action"] == "run":
                self._start(entry, now)
                news = True
        for pk, process in self.processes.items():
            if pk not in listed or listed[pk]["action"] == "stop":
                self._warn(process, now)
        return news

    def _start(self, entry: DesiredAttempt, now: int) -> None:
        work = self.works[entry["workload"]]
        self.processes[entry["attempt"]] = Process(
            attempt=entry["attempt"],
            work=work,
            replicas={one["replica"]: len(one["gpus"]) for one in entry["replicas"]},
            started_at=now,
            ends_at=now + work.needed_seconds(),
        )
        if sum(process.gpus for process in self.processes.values() if not process.has_exited) > self.gpus:
            raise AssertionError("The host was given more than its GPUs.")

    def _warn(self, process: Process, now: int) -> None:
        if not process.is_stopping and not process.has_exited:
            process.is_stopping = True
            process.ends_at = min(process.ends_at, now + STOP_SECONDS)

    def exit_due(self, now: int) -> bool:
        """End what ends now or before; returns whether something did."""
        due = [process for process in self.processes.values() if process.ends_at <= now and not process.has_exited]
        for process in due:
            process.has_exited = True
            self.occupied_gpu_seconds += process.gpus * (now - process.started_at)
            if process.is_stopping:
                process.work.interrupt(process.attempt, now - process.started_at)
        return bool(due)

    def next_exit(self) -> int | None:
        """When the next of its processes ends."""
        return min((one.ends_at for one in self.processes.values() if not one.has_exited), default=None)

    def occupied_until(self, end: int) -> int:
        """GPU-seconds up to `end`, what still runs included."""
        running = (one for one in self.processes.values() if not one.has_exited)
        return self.occupied_gpu_seconds + sum(one.gpus * (end - one.started_at) for one in running)

    def report(self, now: int) -> ReportBody:
        """All that an agent would say."""
        return {
            "boot_id": "replay",
            "gpus": self.gpus,
            "gpu_model": STUB_NAME,
            "simulated": True,
            "separates_users": False,
            "agent_version": STUB_NAME,
            "desired_sequence": 0,
            "replicas": [self._say(one, replica, now) for one in self.processes.values() for replica in one.replicas],
            "logs": [],
        }

    def _say(self, process: Process, replica: int, now: int) -> ReplicaReport:
        exit_code = STOPPED_EXIT_CODE if process.is_stopping else 0
        return {
            "attempt": process.attempt,
            "replica": replica,
            "state": "exited" if process.has_exited else "running",
            "exit_code": exit_code if process.has_exited else None,
            "detail": "",
            "checkpointed_ago_seconds": process.work.checkpointed_ago(now - process.started_at),
        }
