"""The Celery side of the agent: a worker that consumes this host's queue alone and knows one task."""

import logging
import os
import signal
import threading
from pathlib import Path

from celery import Celery
from celery.signals import worker_init
from kombu.exceptions import OperationalError

from portal.agent.host import Host
from portal.agent.loop import Agent
from portal.common import messages

logger = logging.getLogger(__name__)


def app_make(host_name: str, broker_url: str) -> Celery:
    """Celery with everything off that a host doesn't need: remote control, events, results, acknowledgements.

    What is acknowledged nowhere may be lost with the agent; the portal sends all of it again.
    """
    queue = messages.host_queue(host_name)
    app = Celery("agent", set_as_current=False)
    app.conf.update(
        broker_url=broker_url,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "ack_emulation": False,
            "priority_steps": [0],
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
        },
        broker_pool_limit=2,
        task_queues=[messages.queue_bare(queue)],
        task_default_queue=queue,
        task_create_missing_queues=False,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        timezone="UTC",
    )
    return app


def agent_make(host: Host, public_key: bytes, broker_url: str) -> tuple[Agent, Celery]:
    """The agent and the worker that feeds it."""
    app = app_make(host.name, broker_url)

    def send(envelope: messages.Envelope) -> bool:
        try:
            messages.envelope_send(app, messages.REPORT_TASK, envelope, messages.REPORTS_QUEUE)
        except OperationalError as error:
            logger.warning("The broker did not take a report (%s); it is sent again.", error)
            return False
        return True

    agent = Agent(host, public_key, send)
    app.task(name=messages.DESIRED_TASK)(agent.take)
    app.finalize()

    @worker_init.connect(weak=False)  # type: ignore[untyped-decorator]
    def one_task_alone(**arguments: object) -> None:
        for name in set(app.tasks) - {messages.DESIRED_TASK}:
            app.tasks.pop(name)

    return agent, app


def run(host: Host, public_key_file: Path, broker_url: str) -> None:
    """Run until told to stop: the loop in a thread, the worker in front. Replicas outlive both."""
    agent, app = agent_make(host, bytes.fromhex(public_key_file.read_text().strip()), broker_url)
    loop = threading.Thread(target=loop_run, args=[agent], name="loop", daemon=True)
    loop.start()
    try:
        app.Worker(
            hostname=f"agent@{host.name}",
            pool="solo",
            concurrency=1,
            loglevel="INFO",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        ).start()
    finally:
        agent.stop()
        loop.join(timeout=5)


def loop_run(agent: Agent) -> None:
    """The loop; if it breaks, the whole process ends, so that whoever keeps it up starts a whole one."""
    try:
        agent.run()
    finally:
        if not agent.stopping:
            os.kill(os.getpid(), signal.SIGTERM)
