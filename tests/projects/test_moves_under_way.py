"""A move while work runs: passes before and after it agree, and whoever is above is charged for their own time."""

import pytest

from portal.scheduling.models import Balance
from portal.scheduling.project_tree import project_archive, project_move
from portal.workloads.models import WorkloadState
from tests.factories import after, budget_make, project_make
from tests.scheduling.conftest import Lab, fresh

pytestmark = pytest.mark.django_db


def used(lab: Lab) -> dict[str, int]:
    rows = Balance.objects.filter(cluster=lab.cluster)
    return dict(rows.values_list("project__path", "usage_gpu_seconds"))


def test_usage_before_a_move_stays_and_after_it_belongs_to_the_new_ancestors() -> None:
    lab = Lab()
    mt = project_make("lab/nlp/mt")
    budget_make(cluster=lab.cluster, parent=lab.nlp, percent={"mt": 100}, at=after(0))
    workload = lab.submit(at=1, project=mt, gpus=4, minimum=600)
    lab.make_pass(1)
    lab.all_run(1)
    assert lab.make_pass(1000).error == ""
    before = used(lab)
    project_move(project=mt, parent=lab.vision, actor=None, now=after(1000))
    assert lab.make_pass(1000).error == ""
    moved = used(lab)
    assert moved["lab/nlp"] == before["lab/nlp"] == 4 * 999
    assert moved["lab/vision"] == 0
    assert lab.make_pass(1100).error == ""
    assert used(lab)["lab/nlp"] == before["lab/nlp"]
    assert fresh(workload).state == WorkloadState.RUNNING


def test_a_pass_after_an_archive_goes_on_without_its_share() -> None:
    lab = Lab()
    other = lab.submit(at=1, project=lab.nlp, gpus=2, minimum=600)
    project_archive(project=lab.vision, actor=None, now=after(2))
    assert lab.make_pass(3).error == ""
    lab.all_run(4)
    assert fresh(other).state == WorkloadState.RUNNING
    quotas = dict(Balance.objects.values_list("project__path", "quota_gpu_seconds"))
    assert quotas.get("lab/nlp", 0) > 0
