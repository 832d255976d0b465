"""Balances as the last pass left them, or as they stood at an earlier hour, and how to read one."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Max, Q

from portal.common.units import PPM
from portal.scheduling.models import Balance, BalanceSample

ON_SHARE_PPM = 20_000
SAMPLE_AGE_MAX = timedelta(hours=2)


class Reading(NamedTuple):
    """A project's quota and usage over the lookback window, as of a moment."""

    at: datetime
    quota_gpu_seconds: int
    usage_gpu_seconds: int


def balance_words(*, quota_gpu_seconds: int, usage_gpu_seconds: int) -> str:
    """Which way the balance is to be read: people get a bare number backwards."""
    if quota_gpu_seconds <= 0:
        return "no budget"
    balance_ppm = (quota_gpu_seconds - usage_gpu_seconds) * PPM // quota_gpu_seconds
    if abs(balance_ppm) <= ON_SHARE_PPM:
        return "on its share"
    return "under-served" if balance_ppm > 0 else "over-served"


def balances_at_last_pass(*, cluster_ids: Collection[int]) -> dict[tuple[int, int], Reading]:
    """(cluster id, project id) -> quota and usage at the last pass."""
    rows = Balance.objects.filter(cluster_id__in=cluster_ids)
    return {(cluster_id, project_id): Reading(*rest) for cluster_id, project_id, *rest in rows.values_list(*_FIELDS)}


def balances_at(*, cluster_ids: Collection[int], at: datetime) -> dict[tuple[int, int], Reading]:
    """The same at the last full hour up to `at` at which a pass ran, which must not be long before."""
    recent = BalanceSample.objects.filter(cluster_id__in=cluster_ids, at__lte=at, at__gt=at - SAMPLE_AGE_MAX)
    newest = dict(recent.order_by().values_list("cluster_id").annotate(latest=Max("at")))
    if not newest:
        return {}
    those = Q()
    for cluster_id, moment in newest.items():
        those |= Q(cluster_id=cluster_id, at=moment)
    rows = BalanceSample.objects.filter(those)
    return {(cluster_id, project_id): Reading(*rest) for cluster_id, project_id, *rest in rows.values_list(*_FIELDS)}


_FIELDS = ("cluster_id", "project_id", "at", "quota_gpu_seconds", "usage_gpu_seconds")
