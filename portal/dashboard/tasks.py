"""What the beat asks this app for."""

from celery import shared_task
from django.utils import timezone

from portal.dashboard.demonstration_work import demonstration_submit


@shared_task(name="portal.dashboard.demonstration_tick")  # type: ignore[untyped-decorator] # Celery has no types
def demonstration_tick() -> int:
    """Keep work flowing through the demonstration, where there is one."""
    return demonstration_submit(now=timezone.now())
