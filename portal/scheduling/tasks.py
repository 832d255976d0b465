"""What beat and submissions ask for: passes. No rules here."""

import logging

from celery import Task, shared_task
from django.db import DatabaseError
from django.utils import timezone

from portal.clusters.models import Cluster
from portal.common.messages import PASS_ALL_TASK, PASS_TASK, pass_request
from portal.common.units import whole_second
from portal.scheduling.dispatch import hosts_due, hosts_tell
from portal.scheduling.probe import probe_send
from portal.scheduling.services import hosts_silence_note, pass_run
from portal.scheduling.stops import timeouts_ahead

logger = logging.getLogger(__name__)

BUSY_AGAIN_SECONDS = 1


@shared_task(name=PASS_ALL_TASK)  # type: ignore[untyped-decorator] # Celery has no types
def pass_all() -> None:
    """The portal sends itself a probe; who is silent is noted; a pass over every cluster, and one at each timeout that
    ends before the next; who was told long ago is told again."""
    now = timezone.now()
    probe_send(now)
    hosts_silence_note(now=now)
    for cluster in Cluster.objects.filter(paused_at=None):
        try:
            pass_run(cluster=cluster, now=timezone.now())
            for seconds in timeouts_ahead(cluster=cluster, now=whole_second(timezone.now())):
                pass_request(cluster.pk, after_seconds=seconds)
        except DatabaseError:
            # Nothing of it was written; the other clusters are not made to wait for it.
            logger.exception("The pass over %s was undone by the database.", cluster)
    if due := hosts_due(now):
        hosts_tell(due, now)


@shared_task(name=PASS_TASK, bind=True, max_retries=5)  # type: ignore[untyped-decorator] # Celery has no types
def pass_one(self: Task, cluster_id: int) -> None:
    """A pass over one cluster, asked for by what changed in it. Busy: again, the one under way may be past it."""
    cluster = Cluster.objects.filter(pk=cluster_id, paused_at=None).first()
    if cluster is not None and pass_run(cluster=cluster, now=timezone.now()) is None:
        raise self.retry(countdown=BUSY_AGAIN_SECONDS)
