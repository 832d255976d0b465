"""What a host says, to rows: level-triggered, keyed by attempt and replica, measured on the server's clock.

A report that says nothing new costs a few reads. Only news takes the cluster's state lock, and is read again under it.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q

from portal.clusters.health import host_empty, host_recovered, is_fatal
from portal.clusters.models import Host, HostState
from portal.clusters.services import host_heard
from portal.common.messages import ReportBody, pass_request
from portal.common.units import whole_second
from portal.scheduling.claims import gpus_awaited
from portal.scheduling.dispatch import hosts_tell, is_overdue
from portal.scheduling.gangs import gang_follow
from portal.scheduling.hearing import (
    Key,
    Said,
    attempts_alive,
    attempts_unknown,
    hearing_of,
    is_up_to_date,
    replicas_on,
    said_of,
    statuses_of,
)
from portal.scheduling.lifecycle import attempt_begin, attempts_locked, is_held
from portal.scheduling.logs import logs_save
from portal.scheduling.returning import Absence, attempt_lost, faults_apply
from portal.scheduling.round import Round, Tell, cluster_clock, state_lock
from portal.scheduling.stops import ahead_seconds
from portal.workloads.models import Attempt, AttemptState, GpuClaim

CHECKPOINT_STEP_SECONDS = 2
GPUS_GROWTH_MAX = 1024


@transaction.atomic
def report_apply(*, host: Host, report: ReportBody, now: datetime, tell: Tell = hosts_tell) -> None:
    """1. The host is heard. 2. Its logs and checkpoints are kept. 3. Its news changes attempts. 4. It is told again
    if it has what it should not have. 5. Its faults end what they hit; one that was gone and is empty is back."""
    now = whole_second(now)
    heard_before = host.last_heard_at
    rebooted = bool(host.boot_id) and host.boot_id != str(report["boot_id"])
    _host_note(host, report, now)
    said = said_of(report)
    here = replicas_on(host)
    logs_save(host=host, chunks=report.get("logs", ()), now=now)
    _checkpoints_note(said, here, now)
    up_to_date = is_up_to_date(host, report)
    if hearing_of(said=said, up_to_date=up_to_date, rebooted=rebooted, here=here, known=statuses_of(here)):
        absence = Absence(heard_before, rebooted=rebooted)
        _news_apply(host, said, now, up_to_date=up_to_date, absence=absence, tell=tell)
    elif attempts_unknown(said, here) if up_to_date else is_overdue(host, now):
        transaction.on_commit(lambda: tell(frozenset({host.pk}), now))
    if host.unhealthy_code or "faults" in report:
        faults_apply(host, report.get("faults", ()), now, rebooted=rebooted, tell=tell)
    if host.gone_at is not None and not attempts_alive(said, here):
        host_empty(host=host, now=now)


def _host_note(host: Host, report: ReportBody, now: datetime) -> None:
    host_heard(host=host, gpus=_gpus_believed(host, int(report["gpus"])), boot_id=str(report["boot_id"]), now=now)
    facts = {
        "gpu_model": str(report.get("gpu_model", host.gpu_model))[:100],
        "simulated": bool(report.get("simulated", host.simulated)),
        "separates_users": bool(report.get("separates_users", host.separates_users)),
        "agent_version": str(report.get("agent_version", host.agent_version))[:40],
    }
    if any(getattr(host, name) != value for name, value in facts.items()):
        Host.objects.filter(pk=host.pk).update(**facts)


def _gpus_believed(host: Host, said: int) -> int:
    """How many GPUs a host is taken to have that says another number than before.

    Never fewer than attempts have or wait for there: a GPU that is missing goes with the attempt on it. Never more
    than GPUS_GROWTH_MAX by its own word alone: budgets are parts of what is installed, and a host that makes up a
    million GPUs would take everybody's; a larger one is registered as such.
    """
    if said == host.gpus:
        return said
    open_claims = GpuClaim.objects.filter(host=host).exclude(attempt__state=AttemptState.ENDED)
    last = open_claims.filter(Q(occupied__upper_inf=True) | Q(held__upper_inf=True)).aggregate(last=Max("gpu_index"))
    claimed = 0 if last["last"] is None else last["last"] + 1
    return max(min(said, max(host.gpus, GPUS_GROWTH_MAX)), claimed)


def _checkpoints_note(said: dict[Key, Said], here: dict[Key, str], now: datetime) -> None:
    """When each attempt last saved its progress, on the server's clock: only ever later."""
    latest: dict[int, datetime] = {}
    for key, one in said.items():
        if key in here and one.checkpointed_ago_seconds is not None:
            at = now - timedelta(seconds=max(int(one.checkpointed_ago_seconds), 0))
            latest[key[0]] = max(at, latest.get(key[0], at))
    if not latest:
        return
    known = dict(Attempt.objects.filter(pk__in=latest).values_list("pk", "checkpointed_at"))
    for pk, at in latest.items():
        before = known[pk]
        if before is None or at > before + timedelta(seconds=CHECKPOINT_STEP_SECONDS):
            Attempt.objects.filter(pk=pk).filter(Q(checkpointed_at=None) | Q(checkpointed_at__lt=at)).update(
                checkpointed_at=at
            )


def _news_apply(
    host: Host, said: dict[Key, Said], now: datetime, *, up_to_date: bool, absence: Absence, tell: Tell
) -> None:
    """Read the news again, alone with the cluster's attempts, and act on it."""
    state_lock(host.cluster)
    step = Round(host.cluster, cluster_clock(host.cluster, now))
    here = replicas_on(host)
    known = statuses_of(here)
    hearing = hearing_of(said=said, up_to_date=up_to_date, rebooted=absence.rebooted, here=here, known=known)
    away_since = absence.since(step)
    for pk, attempt in attempts_locked(hearing.touched()).items():
        gang = {replica: status for (of, replica), status in known.items() if of == pk}
        replicas = {replica for of, replica in here if of == pk}
        if away_since is None or not attempt_lost(step, attempt, host, hearing, replicas, gang, away_since):
            gang_follow(step, attempt, host, hearing, gang)
        _short_timeout_watch(attempt, step.now)
    if step.freed:
        _host_recover(step, host)
        _held_begin(step)
        pass_request(host.cluster_id)
    step.finish(tell)


def _short_timeout_watch(attempt: Attempt, now: datetime) -> None:
    """A timeout that ends before the beat looks ahead again has its pass asked for as the gang begins to run."""
    timeout_seconds = attempt.workload.timeout_seconds
    if attempt.running_at == now and timeout_seconds is not None and timeout_seconds <= ahead_seconds():
        pass_request(attempt.cluster_id, after_seconds=timeout_seconds)


def _host_recover(step: Round, host: Host) -> None:
    """A host that was unhealthy because it kept killed work is healthy once it has nothing left to stop (R11)."""
    if not host.unhealthy_cause or is_fatal(host.unhealthy_code):
        return
    stopping = GpuClaim.objects.filter(host=host, occupied__upper_inf=True, attempt__state=AttemptState.STOPPING)
    if not stopping.exists():
        host_recovered(host=host, now=step.now)


def _held_begin(step: Round) -> None:
    """Attempts that GPUs were kept for start at once when the last of those is free."""
    held = Attempt.objects.filter(cluster=step.cluster, state=AttemptState.ASSIGNED, assigned_at=None)
    waiting = list(held.values_list("pk", flat=True))
    if not waiting:
        return
    # A host that takes no new attempts takes none that were held for either: the pass decides them anew.
    closed = GpuClaim.objects.filter(attempt__in=waiting, held__upper_inf=True)
    closed_out = set(closed.exclude(host__state=HostState.SCHEDULABLE).values_list("attempt", flat=True))
    free = [pk for pk, awaited in gpus_awaited(waiting).items() if not awaited and pk not in closed_out]
    for attempt in attempts_locked(free).values():
        if is_held(attempt) and attempt.workload.cancel_requested_at is None:
            attempt_begin(step, attempt)
