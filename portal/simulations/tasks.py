"""What workers of simulations do, and what the beat asks for. No rules here."""

from celery import shared_task
from celery.worker import state as worker_state
from django.utils import timezone

from portal.common.messages import SIMULATION_SWEEP_TASK, SIMULATION_WORK_TASK
from portal.simulations.life import run_start, runs_sweep, traces_sweep
from portal.simulations.working import claim_new, run_work


@shared_task(name=SIMULATION_WORK_TASK)  # type: ignore[untyped-decorator] # Celery has no types
def simulations_work() -> int:
    """Simulate what waits, one after the other, until nothing does or this worker is told to stop."""
    done = 0
    while not _stopping():
        claim = claim_new()
        run = run_start(claim=claim, now=timezone.now())
        if run is None:
            break
        run_work(run=run, claim=claim, clock=timezone.now, stopping=_stopping)
        done += 1
    return done


def _stopping() -> bool:
    """Whether the worker was asked to end: Celery notes that while a task runs. 0 asks too; None and False don't."""
    asked = (worker_state.should_stop, worker_state.should_terminate)
    return any(flag is not None and flag is not False for flag in asked)


@shared_task(name=SIMULATION_SWEEP_TASK)  # type: ignore[untyped-decorator] # Celery has no types
def simulations_sweep() -> int:
    """Runs whose worker is gone wait again; workers are asked to look for what waits. Unused traces are removed."""
    now = timezone.now()
    traces_sweep(now=now)
    return int(runs_sweep(now=now))
