"""What the beat asks this app for."""

from celery import shared_task
from django.utils import timezone

from portal.proposals.services.digests import digests_send
from portal.proposals.services.sweep import proposals_sweep


@shared_task(name="portal.proposals.digests")  # type: ignore[untyped-decorator] # Celery has no types
def digests() -> int:
    """Send today's digests to those who have not had theirs."""
    return digests_send(now=timezone.now())


@shared_task(name="portal.proposals.outdate")  # type: ignore[untyped-decorator] # Celery has no types
def outdate() -> int:
    """Make open proposals stale whose level has moved on."""
    return proposals_sweep(now=timezone.now())
