"""Budgets as the API and the CSV show them: as granted, in every unit, beside what was used."""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from portal.budgets.csv_rows import COLUMNS
from portal.budgets.models import BudgetLine
from portal.budgets.percent import percent_exact_text
from portal.budgets.selectors import Line, Shares, changes_standing, shares_at, versions_of_levels
from portal.clusters.models import Cluster
from portal.common.csv_text import BOM, csv_line
from portal.common.units import HOUR_SECONDS, PPM, WEEK_SECONDS
from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible
from portal.scheduling.balance_readings import Reading, balance_words, balances_at, balances_at_last_pass

LINE_FIELDS = (
    "project_id", "project__path", "project__name", "share_ppm", "burst_gpus", "change__cluster_id",
    "change__cluster__name", "change__parent_id", "change__version", "change__effective_at",
)  # fmt: skip


def budget_lines_visible(*, user: User, at: datetime) -> QuerySet[BudgetLine]:
    """The lines in force at that moment, on every cluster, of projects that the person sees."""
    in_force = (
        changes_standing()
        .filter(effective_at__lte=at)
        .order_by("cluster_id", "parent_id", "-effective_at", "-version")
        .distinct("cluster_id", "parent_id")
    )
    return BudgetLine.objects.filter(change__in=in_force.values("pk"), project__in=projects_visible(user=user))


def clusters_sized(**lookup: Any) -> list[Any]:
    """Clusters by name, each with its installed GPUs."""
    found = Cluster.objects.filter(**lookup).order_by("name")
    return list(found.annotate(installed_gpus=Coalesce(Sum("hosts__gpus", filter=Q(hosts__retired_at=None)), 0)))


def budget_rows(*, page: Iterable[dict[str, Any]], at: datetime, now: datetime) -> list[dict[str, Any]]:
    """Answers for rows of LINE_FIELDS; the queries grow with the clusters on the page, not with its rows."""
    rows = list(page)
    clusters = {each.pk: each for each in clusters_sized(pk__in={row["change__cluster_id"] for row in rows})}
    shares = {pk: shares_at(cluster=cluster, at=at) for pk, cluster in clusters.items()}
    versions = {pk: versions_of_levels(cluster=cluster) for pk, cluster in clusters.items()}
    readings = _readings(clusters, at=at, now=now)
    return [
        {
            **_granted(row),
            "level_version": versions[row["change__cluster_id"]].get(row["change__parent_id"], 0),
            **_amounts(shares[row["change__cluster_id"]], row["project_id"], clusters[row["change__cluster_id"]]),
            **_balance(readings.get((row["change__cluster_id"], row["project_id"]))),
        }
        for row in rows
    ]


def _readings(cluster_ids: Iterable[int], *, at: datetime, now: datetime) -> dict[tuple[int, int], Reading]:
    ids = list(cluster_ids)
    return balances_at_last_pass(cluster_ids=ids) if at >= now else balances_at(cluster_ids=ids, at=at)


def _granted(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "cluster": row["change__cluster__name"],
        "project": row["project__path"],
        "name": row["project__name"],
        "parent": row["project__path"].rpartition("/")[0] or None,
        "share_ppm": row["share_ppm"],
        "percent_of_parent": row["share_ppm"] * 100 / PPM,
        "burst_gpus": row["burst_gpus"],
        "change_version": row["change__version"],
        "effective_at": row["change__effective_at"],
    }


def _amounts(shares: Shares, project_id: int, cluster: Any) -> dict[str, Any]:
    """The budget with everything below it, and the part of it that is the project's own; rounded down (R1)."""
    whole, own = (part.get(project_id, Fraction(0)) for part in (shares.shares, shares.own))
    units = {**_units(whole, cluster.installed_gpus), **_units(own, cluster.installed_gpus, "own_")}
    return {**units, "cluster_gpus": cluster.installed_gpus}


def _units(share: Fraction, cluster_gpus: int, prefix: str = "") -> dict[str, Any]:
    gpu_seconds_per_week = math.floor(share * cluster_gpus * WEEK_SECONDS)
    return {
        f"{prefix}percent_of_cluster": math.floor(share * PPM) * 100 / PPM,
        f"{prefix}gpus": math.floor(share * cluster_gpus * 100) / 100,
        f"{prefix}gpu_hours_per_week": math.floor(Fraction(gpu_seconds_per_week, HOUR_SECONDS) * 100) / 100,
        f"{prefix}gpu_seconds_per_week": gpu_seconds_per_week,
    }


def _balance(reading: Reading | None) -> dict[str, Any]:
    if reading is None:
        return dict.fromkeys(("quota_gpu_seconds", "used_gpu_seconds", "balance", "balance_at", "standing"))
    at, quota, used = reading
    return {
        "quota_gpu_seconds": quota,
        "used_gpu_seconds": used,
        "balance": (quota - used) / quota if quota > 0 else None,
        "balance_at": at,
        "standing": balance_words(quota_gpu_seconds=quota, usage_gpu_seconds=used),
    }


def budgets_csv(*, user: User, clusters: Sequence[Any], at: datetime, now: datetime) -> Iterator[str]:
    """Every project that the person sees on each cluster, with its budget or without one, line by line.

    `portal.budgets.csv_import` reads it back. The root's 100 % and a project without a budget have no version to edit.
    """
    yield BOM
    yield csv_line(COLUMNS)
    projects = sorted(projects_visible(user=user).filter(archived_at=None), key=lambda project: project.path.split("/"))
    for cluster in clusters:
        yield from _cluster_lines(projects, cluster, at=at, now=now)


def _cluster_lines(projects: Sequence[Project], cluster: Any, *, at: datetime, now: datetime) -> Iterator[str]:
    shares = shares_at(cluster=cluster, at=at)
    versions = versions_of_levels(cluster=cluster)
    readings = _readings([cluster.pk], at=at, now=now)
    for project in projects:
        line = shares.lines.get(project.pk)
        cells = {
            "cluster": cluster.name,
            "project": project.path,
            "name": project.name,
            "version": "" if project.parent_id is None else versions.get(project.parent_id, 0),
            "percent": _percent_cell(project, line),
            "burst_gpus": line.burst_gpus if line else None,
            **_amounts(shares, project.pk, cluster),
            **_balance(readings.get((cluster.pk, project.pk))),
        }
        if cells["standing"] is None and not shares.shares.get(project.pk):
            cells["standing"] = "no budget"
        yield csv_line([cells[column] for column in COLUMNS])


def _percent_cell(project: Project, line: Line | None) -> str:
    if project.parent_id is None:
        return "100"
    return percent_exact_text(line.share_ppm) if line else ""
