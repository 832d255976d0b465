"""The portal's Celery app: passes, and what the beat asks for. Hosts' reports come in on a worker of their own."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.conf import settings  # noqa: E402 - Django's settings module must be named first

from portal.common import messages  # noqa: E402 - as above

app = Celery("portal", amqp="portal.common.broker:BrokerAMQP")
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": 3600,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        # A person who submits doesn't wait for a broker that is away: the beat makes the pass.
        "max_retries": 1,
        "interval_start": 0.1,
        "interval_step": 0.1,
        "interval_max": 0.2,
    },
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_default_queue=messages.PORTAL_QUEUE,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_publish_retry_policy={"max_retries": 2, "interval_start": 0.1, "interval_step": 0.2, "interval_max": 0.5},
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    timezone="UTC",
    beat_schedule={
        "pass": {
            "task": messages.PASS_ALL_TASK,
            "schedule": settings.PASS_INTERVAL_SECONDS,
            "options": {"expires": settings.PASS_INTERVAL_SECONDS},
        },
        "simulations": {
            "task": messages.SIMULATION_SWEEP_TASK,
            "schedule": settings.PASS_INTERVAL_SECONDS,
            "options": {"expires": settings.PASS_INTERVAL_SECONDS},
        },
        "proposals": {"task": "portal.proposals.outdate", "schedule": 60, "options": {"expires": 60}},
        "digests": {"task": "portal.proposals.digests", "schedule": 900, "options": {"expires": 900}},
        # Does nothing where there is no demonstration.
        "demonstration": {
            "task": "portal.dashboard.demonstration_tick",
            "schedule": 15,
            "options": {"expires": 15},
        },
    },
)
app.autodiscover_tasks(lambda: [name for name in settings.INSTALLED_APPS if name.startswith("portal.")])
app.set_default()
