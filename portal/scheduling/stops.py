"""What people and clocks order: cancels and timeouts, carried out at the start of every pass."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F, Q

from portal.clusters.models import Cluster
from portal.scheduling.lifecycle import Stop, attempt_end, attempts_stop, grace_seconds_of, is_held
from portal.scheduling.round import Round
from portal.workloads.models import Attempt, AttemptState, Outcome


def orders_carry_out(step: Round) -> int:
    """Stop what was cancelled or is out of time; returns how many. Held attempts end at once (R11)."""
    due = _attempts_due(step)
    for attempt in due:
        if is_held(attempt):
            attempt_end(step, attempt, outcome=Outcome.CANCELLED, text="Cancelled before its GPUs were free.")
    stops = [_stop(step, attempt) for attempt in due if not is_held(attempt)]
    if stops:
        attempts_stop(step, stops)
    return len(due)


AHEAD_SLACK_SECONDS = 5
"""How much later than its interval the beat's next pass may come."""
APART_SECONDS = 2


def timeouts_ahead(*, cluster: Cluster, now: datetime) -> list[int]:
    """In how many seconds timeouts end before the beat's next pass: one there would stop them late. Those that end
    within two seconds share one pass."""
    timeout = ExpressionWrapper(F("workload__timeout_seconds") * timedelta(seconds=1), DurationField())
    running = Attempt.objects.filter(cluster=cluster, state=AttemptState.RUNNING, running_at__isnull=False)
    limited = running.filter(workload__timeout_seconds__isnull=False).order_by()
    until = now + timedelta(seconds=ahead_seconds())
    soon = limited.annotate(ends_at=F("running_at") + timeout).filter(ends_at__gt=now, ends_at__lte=until)
    moments = soon.values_list("ends_at", flat=True)
    waits = {-(-int((at - now).total_seconds()) // APART_SECONDS) * APART_SECONDS for at in moments}
    return sorted(waits)


def ahead_seconds() -> int:
    """How far the beat looks ahead for timeouts."""
    return int(settings.PASS_INTERVAL_SECONDS) + AHEAD_SLACK_SECONDS


def _stop(step: Round, attempt: Attempt) -> Stop:
    cancelled = attempt.workload.cancel_requested_at is not None
    return Stop(
        attempt,
        cause=Outcome.CANCELLED if cancelled else Outcome.TIMED_OUT,
        grace_seconds=grace_seconds_of(attempt, step.policy),
        text="Cancelled: told to stop." if cancelled else "Its timeout is over: told to stop.",
    )


def _attempts_due(step: Round) -> list[Attempt]:
    """Attempts that nothing stops yet whose workload is cancelled, or whose gang ran for the whole timeout."""
    cancelled = Q(workload__cancel_requested_at__isnull=False)
    out_of_time = Q(
        running_at__isnull=False,
        workload__timeout_seconds__isnull=False,
        running_at__lte=step.now - F("workload__timeout_seconds") * timedelta(seconds=1),
    )
    active = Attempt.objects.select_for_update(of=("self",), no_key=True).select_related("workload")
    rows = active.filter(cluster=step.cluster, state__in=(AttemptState.ASSIGNED, AttemptState.RUNNING))
    return list(rows.filter(cancelled | out_of_time).order_by("pk"))
