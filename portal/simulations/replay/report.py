"""What a replay found: the portal's figures beside the host stubs' own."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db.models import Min, Q

from portal.simulations.replay.run import Replay
from portal.simulations.replay.world import moment
from portal.usage.models import Segment
from portal.workloads.models import Attempt, Workload, WorkloadState


@dataclass(frozen=True)
class Report:
    """The figures, in the order in which they are printed."""

    submitted: int
    started: int
    finished: int
    wait_p50_s: int | None
    wait_p90_s: int | None
    occupancy_gpu_seconds: int
    ledger_gpu_seconds: int
    violations: int
    passes: int
    pass_mean_s: float
    refused: int
    preempted: int
    unfinished: int
    wall_s: float

    @property
    def is_sound(self) -> bool:
        """Whether the ledger agrees with what the hosts ran, and no decision was refused."""
        return self.violations == 0 and self.occupancy_gpu_seconds == self.ledger_gpu_seconds

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def report_make(replay: Replay, *, wall_seconds: float) -> Report:
    """Read the database and the stubs at the replay's end."""
    end = moment(replay.end)
    waits = _waits(end)
    running = (WorkloadState.PENDING, WorkloadState.RUNNING)
    return Report(
        submitted=replay.submitted,
        started=len(waits),
        finished=Workload.objects.exclude(state__in=running).count(),
        wait_p50_s=nearest_rank(waits, 50),
        wait_p90_s=nearest_rank(waits, 90),
        occupancy_gpu_seconds=sum(stub.occupied_until(replay.end) for stub in replay.stubs.values()),
        ledger_gpu_seconds=_ledger(end),
        violations=sum(bool(one.error) for one in replay.passes),
        passes=len(replay.passes),
        pass_mean_s=round(replay.pass_seconds / max(len(replay.passes), 1), 4),
        refused=replay.refused,
        preempted=sum(one.preempts for one in replay.passes),
        unfinished=Workload.objects.filter(state__in=running).count(),
        wall_s=round(wall_seconds, 1),
    )


def _waits(end: datetime) -> list[int]:
    """Seconds from submission to the first start, of every workload that started, sorted."""
    rows = Attempt.objects.filter(assigned_at__lt=end).order_by().values("workload", "workload__submitted_at")
    return sorted(
        int((row["first"] - row["workload__submitted_at"]).total_seconds())
        for row in rows.annotate(first=Min("assigned_at"))
    )


def nearest_rank(values: list[int], percent: int) -> int | None:
    """The percentile of sorted values by nearest rank; None of none."""
    return values[max(-(-len(values) * percent // 100), 1) - 1] if values else None


def _ledger(end: datetime) -> int:
    """GPU-seconds of all segments, all standings, cut at the end."""
    rows = Segment.objects.filter(Q(start_at__lt=end)).values_list("gpus", "start_at", "end_at")
    return sum(
        gpus * int((min(end_at or end, end) - start_at).total_seconds()) for gpus, start_at, end_at in rows.iterator()
    )
