"""Why workloads wait: written in one statement, in the same words as one by one, and only where it changed."""

from portal.scheduling.waits import waits_save
from portal.scheduling.words import Words
from portal.workloads.models import Workload
from scheduler.types import Code, Decision, Reason, Waits, reason
from tests.scheduling.conftest import Lab


def waiting(lab: Lab, *places: tuple[Reason, int, int]) -> Decision:
    """A decision in which new workloads wait: (shared reason, position, GPUs ahead) each."""
    ids = tuple(lab.submit().pk for _ in places)
    shared, positions, aheads = zip(*places, strict=True)
    return Decision(now=0, waits=Waits(ids, shared, positions, aheads))


def test_every_wait_is_written_as_it_would_be_alone(lab: Lab) -> None:
    project = lab.nlp.pk
    turn = reason(Code.WAITING_TURN)
    idle = reason(Code.UNALLOCATED_QUEUE, project=project, balance_ppm=-30_000, recovers_at=1_790_000_000)
    size = reason(Code.NO_HOST_OF_SIZE, replicas=1, gpus_per_replica=99, largest_gpus=8)
    places = ((turn, 1, 0), (turn, 2, 1), (turn, 3, 2), (idle, 1, 16), (idle, 12, 1), (size, 0, 0))
    decision, words = waiting(lab, *places), Words(lab.cluster)
    assert waits_save(lab.cluster, decision, words) == len(places)
    for wait in decision.waits:
        row = Workload.objects.get(pk=wait.workload)
        assert (row.reason_code, row.reason_text) == (words.code(wait.reason), words.text(wait.reason))
        assert row.reason == {**words.data(wait.reason), "cluster": lab.cluster.name}


def test_a_wait_is_written_again_only_when_its_place_changed(lab: Lab) -> None:
    turn = reason(Code.WAITING_TURN)
    first = waiting(lab, (turn, 1, 0), (turn, 2, 8))
    words = Words(lab.cluster)
    waits_save(lab.cluster, first, words)
    assert waits_save(lab.cluster, first, words) == 0
    moved = Decision(now=0, waits=Waits(first.waits.workload, first.waits.shared, (1, 2), (0, 4)))
    assert waits_save(lab.cluster, moved, words) == 1
