"""What the engine remembers of a workload and of an attempt: plain numbers, changed in place."""

from __future__ import annotations

from scheduler.types import NEVER, Standing

HELD = 0
"""Standing, in the engine's own table, of an attempt whose GPUs are still being emptied."""


class Work:
    """A workload from its submission to its end."""

    __slots__ = (
        "attempt",
        "began",
        "checkpoint_interval",
        "duration",
        "fault",
        "gpus",
        "gpus_per_replica",
        "id",
        "kind",
        "min_runtime",
        "over",
        "priority",
        "project",
        "queued_at",
        "remaining",
        "replicas",
        "resumable",
        "submit_at",
        "unallocated",
        "user",
    )

    def __init__(
        self,
        id: int,
        project: int,
        user: int,
        submit_at: int,
        duration: int,
        replicas: int,
        gpus_per_replica: int,
        min_runtime: int,
        resumable: bool,
        unallocated: bool,
        priority: int,
        checkpoint_interval: int,
    ) -> None:
        self.id = id
        self.project = project
        self.user = user
        self.submit_at = self.queued_at = submit_at
        self.duration = self.remaining = duration
        self.replicas = replicas
        self.gpus_per_replica = gpus_per_replica
        self.gpus = replicas * gpus_per_replica
        self.min_runtime = min_runtime
        self.resumable = resumable
        self.unallocated = unallocated
        self.priority = priority
        self.checkpoint_interval = checkpoint_interval
        self.kind = 0  # index into report.WAIT_CLASSES
        self.began = 0  # attempts that ran
        self.fault = False  # its last attempt ended by a host failure
        self.over = False
        self.attempt: Attempt | None = None


class Attempt:
    """One run of a workload, from the decision to its end."""

    __slots__ = (
        "began_at",
        "charged",
        "decided_at",
        "gpus",
        "idle",
        "kill_at",
        "number",
        "over",
        "overhead",
        "places",
        "segment_at",
        "standing",
        "taker",
        "victims",
        "work",
    )

    def __init__(self, number: int, work: Work, places: dict[int, int], decided_at: int) -> None:
        self.number = number
        self.work = work
        self.places = places  # GPUs by host index
        self.gpus = work.gpus
        self.decided_at = decided_at
        self.began_at = NEVER
        self.segment_at = NEVER
        self.standing: int = HELD
        self.overhead = 0  # seconds of restarting before its useful work goes on
        self.idle = 0  # seconds for which its author keeps the GPUs after the work is done
        self.kill_at = NEVER
        self.over = False
        self.charged: list[tuple[int, int, int]] = []  # (start, end, standing) of its charged segments
        self.taker: Attempt | None = None  # of a stopping one
        self.victims: list[Attempt] = []  # of a held one: those that still stop for it

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self.standing == Standing.STOPPING

    def saved_seconds(self, now: int) -> int:
        """Useful work of this attempt that its last checkpoint holds: it saves every interval of its running time."""
        interval = self.work.checkpoint_interval
        if interval <= 0:
            return 0
        return max((now - self.began_at) // interval * interval - self.overhead, 0)
