"""What the ledger says a project did with its last grant, as a request keeps it. Read-only."""

from datetime import datetime, timedelta
from typing import Any

from portal.budgets.selectors import share_history
from portal.clusters.models import Cluster
from portal.common.units import whole_second
from portal.projects.models import Project
from portal.proposals.models import GrantRequest
from portal.proposals.transitions import GRANTED
from portal.usage.selectors import delivery, nearest_rank, pyramid, wait_samples, window_segments
from portal.workloads.models import CHARGED_STANDINGS, Standing

LOOKBACK = timedelta(days=90)
NO_GRANT = "It had no budget on this cluster in the last 90 days."


def last_grant_range(*, project: Project, cluster: Cluster, now: datetime) -> tuple[datetime, datetime] | None:
    """When the last grant held: the time of the last granted request, else since the present budget took effect.

    At most the last 90 days of it; None where there was none.
    """
    now, earliest = whole_second(now), whole_second(now) - LOOKBACK
    granted = GrantRequest.objects.filter(project=project, cluster=cluster, state=GRANTED, from_at__lt=now)
    last = granted.order_by("-from_at", "-pk").first()
    if last is not None:
        start, end = last.from_at, min(last.until_at, now)
    else:
        begun = _budget_since(project, cluster, earliest, now)
        if begun is None:
            return None
        start, end = begun, now
    start = max(whole_second(start), earliest)
    return (start, whole_second(end)) if end > start else None


def _budget_since(project: Project, cluster: Cluster, earliest: datetime, now: datetime) -> datetime | None:
    """Since when the budget in force now, or the last one that there was, has held."""
    steps = [
        step
        for step in share_history(cluster=cluster, since=earliest)
        if step.project_id == project.pk and step.at <= now
    ]
    with_share = [step.at for step in steps if step.share_ppm]
    return with_share[-1] if with_share else None


def last_grant_figures(*, project: Project, cluster: Cluster, now: datetime) -> dict[str, Any]:
    """Owed, delivered, used, waits and idle-held over the last grant; what isn't known comes with its reason."""
    found = last_grant_range(project=project, cluster=cluster, now=now)
    if found is None:
        return {"reason": NO_GRANT}
    start, end = found
    columns = window_segments(cluster=cluster, start=start, end=end)
    owed = delivery(cluster=cluster, start=start, end=end, columns=columns)[project.pk]
    levels = pyramid(cluster=cluster, start=start, end=end, project=project, columns=columns)
    waits = wait_samples(start=start, end=end, cluster=cluster, project=project)
    firsts = waits.wait_seconds[~waits.restart]
    return {
        "from": start.isoformat(),
        "until": end.isoformat(),
        "owed_gpu_seconds": owed.owed_gpu_seconds,
        "delivered_gpu_seconds": owed.delivered_gpu_seconds,
        "charged_gpu_seconds": sum(levels.occupied_by_standing[str(each)] for each in CHARGED_STANDINGS),
        "unallocated_gpu_seconds": levels.occupied_by_standing[str(Standing.UNALLOCATED)],
        "held_gpu_seconds": levels.held_gpu_seconds,
        "starts": len(firsts),
        "wait_p50_seconds": nearest_rank(firsts, 50) if len(firsts) else None,
        "wait_p90_seconds": nearest_rank(firsts, 90) if len(firsts) else None,
        "idle_held_gpu_seconds": None,
        "idle_held_reason": f"Not measured. {levels.utilization_reason}",
    }
