"""A host's report, read against the rows: what it says, of which attempts, and what its silence means.

Pure reading: nothing is changed here (`observe.py` acts on it).
"""

from dataclasses import dataclass, field

from portal.clusters.models import Host
from portal.common.messages import ReportBody
from portal.workloads.models import AttemptState, GpuClaim, ReplicaStatus

RUNNING, EXITED = "running", "exited"
Key = tuple[int, int]
"""(attempt id, replica)."""


@dataclass(frozen=True)
class Said:
    """What a report says of one replica."""

    state: str
    exit_code: int | None
    detail: str
    checkpointed_ago_seconds: int | None


@dataclass
class Hearing:
    """What is new in a report, by attempt: replicas that run, that exited, and that are gone without a word."""

    running: dict[int, set[int]] = field(default_factory=dict)
    starting: dict[int, set[int]] = field(default_factory=dict)
    exited: dict[int, dict[int, Said]] = field(default_factory=dict)
    lost: dict[int, set[int]] = field(default_factory=dict)

    def touched(self) -> set[int]:
        """The attempts of which there is news."""
        return {*self.starting, *self.running, *self.exited, *self.lost}

    def __bool__(self) -> bool:
        return bool(self.touched())


def said_of(report: ReportBody) -> dict[Key, Said]:
    """The report's replicas by attempt and replica."""
    return {
        (int(entry["attempt"]), int(entry["replica"])): Said(
            state=str(entry["state"]),
            exit_code=entry.get("exit_code"),
            detail=str(entry.get("detail") or "")[:300],
            checkpointed_ago_seconds=entry.get("checkpointed_ago_seconds"),
        )
        for entry in report.get("replicas", ())
    }


def is_up_to_date(host: Host, report: ReportBody) -> bool:
    """Whether the host had taken in the last desired state sent to it when it spoke."""
    return report["desired_sequence"] >= host.desired_sequence


def replicas_on(host: Host) -> dict[Key, str]:
    """The replicas that occupy GPUs of this host, with their attempts' states."""
    rows = GpuClaim.objects.filter(host=host, occupied__upper_inf=True).exclude(attempt__state=AttemptState.ENDED)
    return {
        (attempt, replica): state
        for attempt, replica, state in rows.values_list("attempt", "replica", "attempt__state").distinct()
    }


def statuses_of(here: dict[Key, str]) -> dict[Key, ReplicaStatus]:
    """What was heard so far of the gangs that have replicas here, on all their hosts."""
    rows = ReplicaStatus.objects.filter(attempt__in={attempt for attempt, _ in here}) if here else ()
    return {(status.attempt_id, status.replica): status for status in rows}


def hearing_of(
    *, said: dict[Key, Said], up_to_date: bool, rebooted: bool, here: dict[Key, str], known: dict[Key, ReplicaStatus]
) -> Hearing:
    """What of a report is news. What it says of attempts that aren't here (ended, another's) is none."""
    hearing = Hearing()
    for key, state in here.items():
        status = known.get(key)
        if status is None or status.freed_at is None:
            _hear_one(hearing, key, state, said.get(key), status, up_to_date=up_to_date, rebooted=rebooted)
    return hearing


def _hear_one(
    hearing: Hearing,
    key: Key,
    state: str,
    said: Said | None,
    status: ReplicaStatus | None,
    *,
    up_to_date: bool,
    rebooted: bool,
) -> None:
    attempt, replica = key
    if said is not None and said.state == EXITED:
        hearing.exited.setdefault(attempt, {})[replica] = said
    elif rebooted and status is not None:
        hearing.lost.setdefault(attempt, set()).add(replica)
    elif said is not None:
        if status is None or (said.state == RUNNING and status.running_at is None):
            news = hearing.running if said.state == RUNNING else hearing.starting
            news.setdefault(attempt, set()).add(replica)
    elif up_to_date and (status is not None or state == AttemptState.STOPPING):
        hearing.lost.setdefault(attempt, set()).add(replica)


def attempts_unknown(said: dict[Key, Said], here: dict[Key, str]) -> set[int]:
    """Attempts that the host speaks of and should not have: told once more, it drops them."""
    return {attempt for attempt, _ in said} - {attempt for attempt, _ in here}


def attempts_alive(said: dict[Key, Said], here: dict[Key, str]) -> set[int]:
    """Attempts that still live on the host and should not be there."""
    return {key[0] for key, one in said.items() if one.state != EXITED and key not in here}
