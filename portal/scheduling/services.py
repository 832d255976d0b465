"""One pass over a cluster, and the watch over silent hosts."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter

from django.db import transaction

from portal.clusters.models import Cluster, Host
from portal.clusters.policies import POLICY_SETTINGS
from portal.clusters.selectors import policies_of
from portal.clusters.services import host_silent
from portal.common.units import whole_second
from portal.scheduling.apply import Applied, decision_apply
from portal.scheduling.balances import balances_save
from portal.scheduling.dispatch import hosts_tell
from portal.scheduling.drain import drained_note
from portal.scheduling.gone import gone_carry_out
from portal.scheduling.models import Pass
from portal.scheduling.reservations import reservations_close, reservations_tell
from portal.scheduling.round import Round, Tell, cluster_clock, pass_lock_try, state_lock
from portal.scheduling.snapshot import snapshot_read
from portal.scheduling.stops import orders_carry_out
from portal.scheduling.waits import waits_save
from portal.scheduling.words import Words
from scheduler import invariants
from scheduler.decide import decide
from scheduler.types import Code, Decision, InvariantBroken, Policy, Snapshot, SnapshotRefused

logger = logging.getLogger(__name__)

HOST_GONE_LEAST_SECONDS = POLICY_SETTINGS["host_gone_seconds"].least


@dataclass
class Timing:
    """Milliseconds of a pass's parts."""

    started: float
    snapshot_ms: int = 0
    decide_ms: int = 0
    apply_ms: int = 0

    def lap(self) -> int:
        """Milliseconds since the last lap."""
        now = perf_counter()
        elapsed, self.started = now - self.started, now
        return round(elapsed * 1000)


@transaction.atomic
def pass_run(*, cluster: Cluster, now: datetime, tell: Tell = hosts_tell) -> Pass | None:
    """1. Lock the cluster: busy means that another pass is under way (None). 2. Read the clock. 3. End what ran on
    hosts that are gone, carry out cancels and timeouts, note closed hosts that are empty. 4. Snapshot. 5. Decide.
    6. Check. 7. Apply. 8. Hosts are told after the commit.

    All rows are written in this one transaction: a kill between any two steps leaves nothing half-written. A decision
    that breaks an invariant is not applied: the pass records why.
    """
    if not pass_lock_try(cluster):
        return None
    state_lock(cluster)
    if Cluster.objects.filter(pk=cluster.pk, paused_at__isnull=False).exists():
        return None
    wanted = whole_second(now)
    step = Round(cluster, whole_second(cluster_clock(cluster, wanted)))
    gone_carry_out(step)
    orders_carry_out(step)
    drained_note(step)
    reservations_close(step)
    record = Pass(cluster=cluster, now_at=step.now, clock_step_back_seconds=_step_back_seconds(cluster, wanted))
    _decide_and_apply(step, record)
    step.finish(tell)
    record.save()
    return record


def _step_back_seconds(cluster: Cluster, wanted: datetime) -> int:
    """How far the clock stands behind the last pass; it is decided for no earlier moment than that one's."""
    last = Pass.objects.filter(cluster=cluster).order_by("-pk").values_list("now_at", flat=True).first()
    return 0 if last is None else max(int((last - wanted).total_seconds()), 0)


def _decide_and_apply(step: Round, record: Pass) -> None:
    """Steps 4 to 7; what stops them is recorded, and no row of the decision is written."""
    timing = Timing(perf_counter())
    snapshot = snapshot_read(cluster=step.cluster, policy=step.policy, now=step.now)
    record.pending, record.active = len(snapshot.pending.id), len(snapshot.attempts.id)
    record.snapshot_ms = timing.lap()
    try:
        decision = _decided(snapshot, step.policy)
    except (InvariantBroken, SnapshotRefused) as problem:
        logger.error("The pass over %s at %s was not applied: %s", step.cluster, step.now, problem)
        record.error = f"{type(problem).__name__}: {problem}"[:1000]
        return
    record.decide_ms = timing.lap()
    applied = _applied(step, decision)
    record.starts, record.preempts = applied.starts, applied.preempts
    record.lapses, record.returns, record.stale = applied.lapses, applied.returns, applied.stale
    record.apply_ms = timing.lap()


def _decided(snapshot: Snapshot, policy: Policy) -> Decision:
    decision = decide(snapshot, policy)
    invariants.check(snapshot, decision)
    return decision


def _applied(step: Round, decision: Decision) -> Applied:
    words = Words(step.cluster)
    applied = decision_apply(step, decision, words)
    waits_save(step.cluster, decision, words)
    if any(shared.code == Code.RESERVED for shared in decision.waits.shared):
        reservations_tell(step.cluster)
    balances_save(step.cluster, decision, step.now)
    return applied


def hosts_silence_note(*, now: datetime) -> Collection[int]:
    """Hosts unheard for a while (policy) take no new work until they are heard again. Only what `gone_carry_out`
    knows to be gone is ended: silence may be the portal's own."""
    heard = Host.objects.filter(last_heard_at__isnull=False, retired_at=None, silent_at=None).select_related("cluster")
    candidates = list(heard.filter(last_heard_at__lt=now - timedelta(seconds=HOST_GONE_LEAST_SECONDS)))
    policies = policies_of(clusters={host.cluster for host in candidates}) if candidates else {}
    silent = [host for host in candidates if _is_unheard(host, policies[host.cluster_id]["host_gone_seconds"], now)]
    for host in silent:
        host_silent(host=host, now=whole_second(now))
    return [host.pk for host in silent]


def _is_unheard(host: Host, seconds: int, now: datetime) -> bool:
    return host.last_heard_at is not None and host.last_heard_at < now - timedelta(seconds=seconds)
