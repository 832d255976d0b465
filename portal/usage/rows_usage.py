"""GPU-seconds of projects over a range, by standing, rolled up along the paths that were charged (R3)."""

from collections import defaultdict
from datetime import datetime
from typing import Any

from django.db.models import BigIntegerField, F, Q, Sum
from django.db.models.functions import Cast, Coalesce, Extract, Greatest, Least

from portal.projects.models import Project
from portal.usage.models import Segment
from portal.workloads.models import CHARGED_STANDINGS, Standing


def usage_rows(
    *, projects: dict[int, str], cluster_name: str | None, start: datetime, end: datetime
) -> list[dict[str, Any]]:
    """A row per cluster and project (ids with their paths) in which anything ran, its whole subtree counted."""
    totals: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: dict.fromkeys(Standing.values, 0))
    for cluster, path, standing, gpu_seconds in _sums(cluster_name, start, end):
        for project_id in path:
            if project_id in projects:
                totals[cluster, project_id][standing] += gpu_seconds
    ordered = sorted(totals, key=lambda key: (key[0], projects[key[1]]))
    return [_row(cluster, projects[project_id], totals[cluster, project_id]) for cluster, project_id in ordered]


def project_paths(projects: Any, below: Project | None) -> dict[int, str]:
    """Ids and paths of projects, those at and below one where that is asked for."""
    if below is not None:
        projects = projects.filter(Q(pk=below.pk) | Q(path__startswith=f"{below.path}/"))
    return dict(projects.values_list("pk", "path"))


def _sums(cluster_name: str | None, start: datetime, end: datetime) -> Any:
    segments = Segment.objects.filter(Q(end_at=None) | Q(end_at__gt=start), start_at__lt=end)
    if cluster_name is not None:
        segments = segments.filter(cluster__name=cluster_name)
    inside = Least(Coalesce("end_at", end), end) - Greatest(F("start_at"), start)
    seconds = Cast(Extract(inside, "epoch"), BigIntegerField())
    return (
        segments.order_by()
        .values_list("cluster__name", "path", "standing")
        .annotate(gpu_seconds=Sum(F("gpus") * seconds, output_field=BigIntegerField()))
    )


def _row(cluster: str, path: str, by_standing: dict[str, int]) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "project": path,
        **{f"{standing}_gpu_seconds": int(gpu_seconds) for standing, gpu_seconds in by_standing.items()},
        "charged_gpu_seconds": int(sum(by_standing[standing] for standing in CHARGED_STANDINGS)),
    }
