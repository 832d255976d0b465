"""Starts and the preemptions that they rest on: GPUs picked, attempts, claims and segments written in bulk."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Max

from portal.common.bulk import ids_among, rows_copy, rows_insert_with_ids
from portal.scheduling.claims import GpuMap, Placed
from portal.scheduling.lifecycle import Stop, attempts_stop
from portal.scheduling.round import Round
from portal.scheduling.snapshot import STANDING_NUMBERS
from portal.scheduling.words import Words
from portal.usage.services import Opening, segments_open_many
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Outcome, Workload, WorkloadState
from scheduler.types import Preempt, Start

STANDING_NAMES = {number: name for name, number in STANDING_NUMBERS.items()}
CLAIM_COLUMNS = ("attempt", "replica", "host", "gpu_index", "held", "occupied")
ACTIVE = (AttemptState.ASSIGNED, AttemptState.RUNNING)


@dataclass(frozen=True)
class Group:
    """A start and the attempts that it stops: applies whole or not at all."""

    start: Start
    preempts: tuple[Preempt, ...]


@dataclass
class Done:
    """How the groups fared."""

    starts: int = 0
    preempts: int = 0
    stale: int = 0


@dataclass(frozen=True)
class Prepared:
    """A group whose rows still stand as decided, with its GPUs."""

    group: Group
    workload: Workload
    attempt: Attempt
    placed: Placed

    @property
    def is_held(self) -> bool:
        return bool(self.group.start.victims)


def starts_apply(step: Round, groups: list[Group], attempts: dict[int, Attempt], words: Words) -> Done:
    """Write every group that still holds; `attempts` are the locked rows that the decision names."""
    done = Done()
    workloads = workloads_startable(group.start.workload for group in groups)
    numbers = _numbers(workloads)
    gpus = GpuMap(step.cluster)
    prepared = []
    for group in groups:
        one = _prepare(step, group, workloads, numbers, gpus, attempts)
        if one is None:
            done.stale += 1 + len(group.preempts)
        else:
            prepared.append(one)
    _write_starts(step, prepared, words)
    stops = _stops(prepared, attempts, words)
    if stops:
        attempts_stop(step, stops)
    done.starts, done.preempts = len(prepared), len(stops)
    return done


def workloads_startable(pks: Iterable[int]) -> dict[int, Workload]:
    """Those that are still pending, wanted and without an attempt anywhere, locked in the order of their ids."""
    rows = Workload.objects.select_for_update(of=("self",), no_key=True).filter(
        pk__in=ids_among(pks), state=WorkloadState.PENDING, cancel_requested_at=None
    )
    rows = rows.only("pk", "replicas", "gpus_per_replica", "min_runtime_seconds", "queued_at")
    workloads = {workload.pk: workload for workload in rows.order_by("pk")}
    busy = Attempt.objects.filter(workload__in=ids_among(workloads)).exclude(state=AttemptState.ENDED)
    for pk in busy.values_list("workload", flat=True):
        del workloads[pk]
    return workloads


def _numbers(workloads: Iterable[int]) -> dict[int, int]:
    """The last attempt's number of each workload that has had one."""
    rows = Attempt.objects.filter(workload__in=ids_among(workloads)).values("workload").order_by("workload")
    return dict(rows.annotate(last=Max("number")).values_list("workload", "last"))


def _prepare(
    step: Round,
    group: Group,
    workloads: dict[int, Workload],
    numbers: dict[int, int],
    gpus: GpuMap,
    attempts: dict[int, Attempt],
) -> Prepared | None:
    start = group.start
    workload = workloads.get(start.workload)
    if workload is None or not _victims_stand(group, attempts):
        return None
    placed = gpus.place(workload, start.placement, start.victims)
    if placed is None:
        return None
    gpus.note(placed, -workload.pk, held=bool(start.victims))
    del workloads[start.workload]
    attempt = Attempt(
        workload_id=workload.pk,
        cluster_id=step.cluster.pk,
        number=numbers.get(workload.pk, 0) + 1,
        standing=STANDING_NAMES[start.standing],
        express=start.express,
        min_runtime_seconds=workload.min_runtime_seconds,
        queued_at=workload.queued_at,
        decided_at=step.now,
        assigned_at=None if start.victims else step.now,
    )
    return Prepared(group, workload, attempt, placed)


def _victims_stand(group: Group, attempts: dict[int, Attempt]) -> bool:
    """Whether everyone whom the start stops still runs or starts, with GPUs of its own."""
    victims = (attempts.get(preempt.attempt) for preempt in group.preempts)
    return all(victim is not None and victim.state in ACTIVE and victim.assigned_at for victim in victims)


def _write_starts(step: Round, prepared: list[Prepared], words: Words) -> None:
    for one in prepared:
        reason = one.group.start.reason
        one.attempt.reason_code = words.code(reason)
        one.attempt.reason_text = words.text(reason)[:1000]
        one.attempt.reason = words.data(reason)
    rows_insert_with_ids([one.attempt for one in prepared])
    rows_copy(GpuClaim, CLAIM_COLUMNS, _claims(step, prepared))
    assigned = [one for one in prepared if not one.is_held]
    segments_open_many(openings=[Opening(one.attempt, step.now, one.attempt.standing) for one in assigned])
    _workloads_told(prepared)
    for one in prepared:
        kind = "held" if one.is_held else "assigned"
        attempt = one.attempt
        step.note(
            attempt,
            kind,
            code=attempt.reason_code,
            text=attempt.reason_text,
            standing=attempt.standing,
            **attempt.reason,
        )
    for one in assigned:
        step.hosts |= {host for _, host, _ in one.placed}


def _workloads_told(prepared: list[Prepared]) -> None:
    """Pending until they run: what each waits for now, one statement for all with the same words."""
    told: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in prepared:
        told[_waiting_words(one)].append(one.workload.pk)
    for (code, text), pks in told.items():
        Workload.objects.filter(pk__in=ids_among(pks)).update(reason_code=code, reason_text=text, reason={})


def _waiting_words(one: Prepared) -> tuple[str, str]:
    if not one.is_held:
        return "starting", "Its GPUs are assigned: the hosts are starting it."
    count = len(one.group.start.victims)
    who = "1 attempt" if count == 1 else f"{count} attempts"
    return "held", f"GPUs are being emptied for it: {who} must stop first."


def _claims(step: Round, prepared: Iterable[Prepared]) -> Iterator[tuple[int, int, int, int, str | None, str | None]]:
    from_now_on = f"[{step.now.isoformat()},)"
    for one in prepared:
        held, occupied = (from_now_on, None) if one.is_held else (None, from_now_on)
        for replica, host, index in one.placed:
            yield one.attempt.pk, replica, host, index, held, occupied


def _stops(prepared: Iterable[Prepared], attempts: dict[int, Attempt], words: Words) -> list[Stop]:
    """The signals to the victims, each for its taker (R11)."""
    return [
        Stop(
            attempts[preempt.attempt],
            cause=Outcome.PREEMPTED,
            grace_seconds=preempt.grace_seconds,
            taker=one.attempt,
            code=words.code(preempt.reason),
            text=words.text_unnamed(preempt.reason),
            named_text=words.text(preempt.reason),
            named_projects=words.other_projects(preempt.reason),
        )
        for one in prepared
        for preempt in one.group.preempts
    ]
