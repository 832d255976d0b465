"""Budgets as the API shows them: as granted, in every unit, beside what was used."""

import math
from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.selectors import shares_of_cluster
from portal.clusters.models import Cluster
from portal.common.units import HOUR_SECONDS, WEEK_SECONDS
from portal.projects.models import User
from portal.projects.selectors import projects_visible
from portal.scheduling.models import Balance

LINE_FIELDS = (
    "project_id", "project__path", "share_ppm", "burst_gpus", "change__cluster_id", "change__cluster__name",
    "change__version", "change__effective_at",
)  # fmt: skip


def budget_lines_visible(*, user: User, at: datetime) -> QuerySet[BudgetLine]:
    """The lines in force at that moment, on every cluster, of projects that the person sees."""
    in_force = (
        BudgetChange.objects.filter(effective_at__lte=at)
        .order_by("cluster_id", "parent_id", "-effective_at", "-version")
        .distinct("cluster_id", "parent_id")
    )
    return BudgetLine.objects.filter(change__in=in_force.values("pk"), project__in=projects_visible(user=user))


def budget_rows(*, page: Iterable[dict[str, Any]], at: datetime) -> list[dict[str, Any]]:
    """Answers for rows of LINE_FIELDS; the queries grow with the clusters on the page, not with its rows."""
    rows = list(page)
    cluster_ids = {row["change__cluster_id"] for row in rows}
    clusters = Cluster.objects.filter(pk__in=cluster_ids).annotate(
        installed_gpus=Coalesce(Sum("hosts__gpus", filter=Q(hosts__retired_at=None)), 0)
    )
    gpus: dict[int, int] = {}
    shares: dict[int, dict[int, Fraction]] = {}
    for cluster in clusters:
        gpus[cluster.pk] = cluster.installed_gpus
        shares[cluster.pk] = shares_of_cluster(cluster=cluster, at=at)
    balances = balances_of(cluster_ids=cluster_ids, project_ids={row["project_id"] for row in rows})
    return [
        {
            **_granted(row, shares[row["change__cluster_id"]][row["project_id"]], gpus[row["change__cluster_id"]]),
            **balances.get((row["change__cluster_id"], row["project_id"]), _NOT_YET),
        }
        for row in rows
    ]


_NOT_YET = {"quota_gpu_seconds": None, "used_gpu_seconds": None, "balance": None, "balance_at": None}


def balances_of(*, cluster_ids: set[int], project_ids: set[int]) -> dict[tuple[int, int], dict[str, Any]]:
    """The last pass's balances by cluster and project."""
    found = Balance.objects.filter(cluster_id__in=cluster_ids, project_id__in=project_ids)
    return {
        (cluster_id, project_id): {
            "quota_gpu_seconds": quota,
            "used_gpu_seconds": used,
            "balance": (quota - used) / quota if quota else None,
            "balance_at": at,
        }
        for cluster_id, project_id, at, quota, used in found.values_list(
            "cluster_id", "project_id", "at", "quota_gpu_seconds", "usage_gpu_seconds"
        )
    }


def _granted(row: dict[str, Any], share: Fraction, cluster_gpus: int) -> dict[str, Any]:
    """The budget in every unit; all but the stored parts per million are rounded down (R1)."""
    gpu_seconds_per_week = math.floor(share * cluster_gpus * WEEK_SECONDS)
    return {
        "cluster": row["change__cluster__name"],
        "project": row["project__path"],
        "parent": row["project__path"].rpartition("/")[0] or None,
        "share_ppm": row["share_ppm"],
        "percent_of_parent": row["share_ppm"] / 10_000,
        "percent_of_cluster": math.floor(share * 1_000_000) / 10_000,
        "cluster_gpus": cluster_gpus,
        "gpus": math.floor(share * cluster_gpus * 100) / 100,
        "gpu_hours_per_week": math.floor(Fraction(gpu_seconds_per_week, HOUR_SECONDS) * 100) / 100,
        "gpu_seconds_per_week": gpu_seconds_per_week,
        "burst_gpus": row["burst_gpus"],
        "change_version": row["change__version"],
        "effective_at": row["change__effective_at"],
    }
