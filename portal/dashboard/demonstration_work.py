"""Work for the demonstration: real, short commands by several people, more than the GPUs can run at once.

Every tick draws from a random source seeded by its own time, so a tick that is delivered twice submits once.
"""

import random
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from portal.clusters.models import Cluster, Host
from portal.common.units import epoch_seconds
from portal.dashboard.demonstration import AUTHORS
from portal.projects.models import Membership, Project, Role
from portal.workloads.models import Workload, WorkloadState
from portal.workloads.services import workload_submit

TICK_SECONDS = 15
PENDING_LOW, PENDING_MOST = 6, 12
STEP_SECONDS = 5
FAILS_ONE_IN = 25

SCRIPT = """#!/bin/sh
# A stand-in for training: a little arithmetic, progress in the output, a checkpoint every fourth step.
save() { echo "$step" > "$COMMONS_CHECKPOINT_FILE"; }
trap 'save; echo "Told to stop: saved at step $step of $DEMO_STEPS."; exit 143' TERM
step=0
echo "Replica $COMMONS_REPLICA of $COMMONS_REPLICAS on GPUs $CUDA_VISIBLE_DEVICES."
while [ "$step" -lt "$DEMO_STEPS" ]; do
    sleep "$DEMO_STEP_SECONDS" & wait $!
    step=$((step + 1))
    loss=$((90000 / (step + 20)))
    echo "step $step of $DEMO_STEPS  loss $((loss / 1000)).$(printf %03d $((loss % 1000)))"
    if [ $((step % 4)) -eq 0 ]; then save; echo "checkpoint saved"; fi
done
save
if [ "$DEMO_FAILS" = 1 ]; then echo "The loss is not a number any more." >&2; exit 1; fi
echo "Done."
"""


@dataclass(frozen=True)
class Kind:
    """A sort of work: its gang, its contract, how long it runs, how often it is drawn."""

    name: str
    replicas: int
    gpus: int
    min_runtime_seconds: int
    run_seconds: tuple[int, int]
    weight: int
    resumable: bool = True


KINDS = (
    Kind("debug-tokenizer", 1, 1, 60, (30, 80), 5),
    Kind("evaluate-checkpoint", 1, 1, 0, (40, 120), 4),
    Kind("sweep-learning-rate", 2, 1, 0, (60, 180), 3),
    Kind("finetune", 1, 2, 120, (120, 240), 5),
    Kind("finetune-two-nodes", 2, 2, 120, (120, 240), 2),
    Kind("pretrain-small", 1, 4, 180, (180, 330), 3),
    Kind("export-weights", 1, 1, 60, (45, 75), 2, resumable=False),
    Kind("scaling-run", 1, 8, 120, (120, 210), 1),
)


def demonstration_submit(*, now: datetime) -> int:
    """Submit what this tick draws, if there is a demonstration and its queue isn't long already."""
    cluster = Cluster.objects.filter(name="local", paused_at=None).first()
    demonstration = Project.objects.filter(is_demonstration=True, archived_at=None)
    if cluster is None or not demonstration.filter(parent__isnull=False).exists():
        return 0
    largest = Host.objects.filter(cluster=cluster, retired_at=None).aggregate(most=Max("gpus"))["most"] or 0
    pending = Workload.objects.filter(is_demonstration=True, state=WorkloadState.PENDING).count()
    tick = epoch_seconds(now) // TICK_SECONDS
    draw = random.Random(tick)  # noqa: S311 - the mix of a demonstration is no secret
    usual = draw.randint(0, 2)  # drawn always: what follows is the same however long the queue is
    wanted = 3 if pending < PENDING_LOW else usual
    people = _authors()
    kinds = [kind for kind in KINDS if kind.gpus <= largest]
    if not people or not kinds:
        return 0
    count = max(min(wanted, PENDING_MOST - pending), 0)
    return sum(_one_submit(cluster, people, kinds, draw, f"demonstration-{tick}-{n}", now) for n in range(count))


def _authors() -> dict[str, Membership]:
    """Where each author works now: their project may have been renamed, moved or archived."""
    names = [name for name, _ in AUTHORS]
    working = Membership.objects.filter(user__username__in=names, project__archived_at=None).exclude(role=Role.VIEWER)
    found = {each.user.username: each for each in working.select_related("user", "project").order_by("-pk")}
    return {name: found[name] for name in names if name in found}


def _one_submit(
    cluster: Cluster, people: dict[str, Membership], kinds: list[Kind], draw: random.Random, key: str, now: datetime
) -> bool:
    author = draw.choice(list(people.values()))
    kind = draw.choices(kinds, [kind.weight for kind in kinds])[0]
    name, priority = f"{kind.name}-{draw.randint(10, 99)}", draw.choice([0, 0, 0, 10])
    fails = draw.randrange(FAILS_ONE_IN) == 0
    steps = max(draw.randint(*kind.run_seconds) // STEP_SECONDS, 1)
    if Workload.objects.filter(author=author.user, idempotency_key=key).exists():
        return False  # this tick has come before; its project may have moved since
    _, created = workload_submit(
        author=author.user,
        now=now,
        project=author.project,
        clusters=[cluster.name],
        name=name,
        script=SCRIPT,
        replicas=kind.replicas,
        gpus_per_replica=kind.gpus,
        min_runtime_seconds=kind.min_runtime_seconds,
        timeout_seconds=kind.min_runtime_seconds + 900,
        resumable=kind.resumable,
        priority=priority,
        environment={
            "DEMO_STEPS": str(steps),
            "DEMO_STEP_SECONDS": str(STEP_SECONDS),
            "DEMO_FAILS": "1" if fails else "0",
        },
        idempotency_key=key,
    )
    return created
