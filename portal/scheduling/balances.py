"""Balances as the pass saw them, for pages and charts: derived from the ledger, never read back by it."""

from datetime import datetime

from portal.clusters.models import Cluster
from portal.scheduling.models import Balance, BalanceSample
from scheduler.types import Decision

PPB_OF_PPM = 1000


def balances_save(cluster: Cluster, decision: Decision, now: datetime) -> None:
    """The latest of each project; at the first pass of each hour also a sample that stays."""
    rows = [
        Balance(
            cluster=cluster,
            project_id=balance.project,
            at=now,
            quota_gpu_seconds=balance.quota_gpu_seconds,
            usage_gpu_seconds=balance.usage_gpu_seconds,
            share_ppb=balance.share_ppm * PPB_OF_PPM,
        )
        for balance in decision.balances
        if not balance.own
    ]
    hour = now.replace(minute=0, second=0, microsecond=0)
    sampled = Balance.objects.filter(cluster=cluster, at__gte=hour).exists()
    Balance.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["cluster", "project"],
        update_fields=["at", "quota_gpu_seconds", "usage_gpu_seconds", "share_ppb"],
    )
    if not sampled:
        samples = [
            BalanceSample(
                cluster=cluster,
                project_id=row.project_id,
                at=hour,
                quota_gpu_seconds=row.quota_gpu_seconds,
                usage_gpu_seconds=row.usage_gpu_seconds,
            )
            for row in rows
        ]
        BalanceSample.objects.bulk_create(samples, ignore_conflicts=True)
