"""A host's history of states: what quota and availability are computed from."""

from datetime import datetime

from django.db.models import Q

from portal.clusters.models import Host, HostSpan, HostState


def span_turn(host: Host, at: datetime) -> None:
    """End the open span and begin the next, unless nothing that a span records has changed."""
    span = HostSpan.objects.filter(host=host, end_at=None).first()
    facts = {"gpus": host.gpus, "state": host.state, "cause": host.state_cause}
    if span is None:
        HostSpan.objects.create(host=host, cluster_id=host.cluster_id, start_at=at, **facts)
        return
    if {name: getattr(span, name) for name in facts} == facts:
        return
    if at <= span.start_at:  # within its first second, or after a step back of the clock: no time has passed
        HostSpan.objects.filter(pk=span.pk).update(**facts)
        return
    HostSpan.objects.filter(pk=span.pk).update(end_at=at)
    HostSpan.objects.create(host=host, cluster_id=host.cluster_id, start_at=at, **facts)


def spans_lose(host: Host, since: datetime, until: datetime, cause: str) -> None:
    """From `since` to `until`, now, the host turned out to be away: what counted as schedulable did not.

    Time under a cordon, or in which it was known to be unhealthy, keeps its cause.
    """
    if since >= until:
        return
    spans = HostSpan.objects.filter(Q(end_at=None) | Q(end_at__gt=since), host=host, state=HostState.SCHEDULABLE)
    lost = {"state": HostState.UNREACHABLE, "cause": cause[:200]}
    for span in spans.order_by("start_at"):
        if span.start_at >= since:
            HostSpan.objects.filter(pk=span.pk).update(**lost)
            continue
        HostSpan.objects.filter(pk=span.pk).update(end_at=since)
        HostSpan.objects.create(
            host=host, cluster_id=span.cluster_id, gpus=span.gpus, start_at=since, end_at=span.end_at, **lost
        )
