"""Rows to the core's facts, in a fixed number of queries."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.clusters.services import host_cordon
from portal.scheduling.snapshot import policy_of, snapshot_read
from portal.usage.models import Segment
from scheduler.state import check_facts
from scheduler.types import NEVER, Policy, Snapshot, Standing
from tests.factories import START, after, user_make
from tests.scheduling.conftest import Lab, attempt_of

QUERIES = 13
EPOCH = int(START.timestamp())


def snapshot_at(lab: Lab, at: int) -> Snapshot:
    return snapshot_read(cluster=lab.cluster, policy=policy_of(cluster=lab.cluster), now=after(at))


@pytest.mark.parametrize("count", [0, 1, 6])
def test_a_snapshot_takes_as_many_queries_whatever_its_size(lab: Lab, count: int) -> None:
    for number in range(count):
        attempt = lab.start(number, gpus=2, minimum=600)
        lab.report(attempt.claims.all()[0].host, number + 1, exited={(attempt, 0): 0})
        lab.start(number, gpus=2, minimum=600)
        lab.submit(at=number, gpus=16)
    policy = policy_of(cluster=lab.cluster)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        snapshot_read(cluster=lab.cluster, policy=policy, now=after(100))
    assert len(queries) == QUERIES


def test_an_empty_cluster_gives_facts_that_the_core_accepts(db: None) -> None:
    lab = Lab(hosts=0)
    check_facts(snapshot_at(lab, 0))


def test_a_pending_workload_stands_there_as_it_was_submitted(lab: Lab) -> None:
    workload = lab.submit(at=7, gpus=4, replicas=2, minimum=600, priority=3, resumable=False)
    pending = snapshot_at(lab, 10).pending
    names = ("id", "author", "first_submit_at", "queued_at", "replicas", "gpus_per_replica", "priority")
    row = {name: int(getattr(pending, name)[0]) for name in names}
    assert row == {
        "id": workload.pk,
        "author": lab.author.pk,
        "first_submit_at": EPOCH + 7,
        "queued_at": EPOCH + 7,
        "replicas": 2,
        "gpus_per_replica": 4,
        "priority": 3,
    }
    assert (bool(pending.resumable[0]), bool(pending.first_start[0])) == (False, True)


def test_a_running_attempt_stands_there_with_its_moments_and_places(lab: Lab) -> None:
    workload = lab.submit(gpus=8, replicas=2, minimum=600)
    lab.make_pass(0)
    lab.all_run(9)
    snapshot = snapshot_at(lab, 10)
    attempts = snapshot.attempts
    assert int(attempts.id[0]) == attempt_of(workload).pk
    assert (int(attempts.segments_at[0]), int(attempts.running_at[0])) == (EPOCH, EPOCH + 9)
    assert (int(attempts.standing[0]), int(attempts.stopping_at[0])) == (Standing.PROTECTED, NEVER)
    assert snapshot.placements.host.tolist() == [0, 1]
    assert snapshot.placements.replicas.tolist() == [1, 1]


def test_a_requeued_workload_is_no_first_start(lab: Lab) -> None:
    attempt = lab.start(0, minimum=600)
    lab.report(lab.hosts[0], 30, boot_id="another boot")
    pending = snapshot_at(lab, 40).pending
    assert (int(pending.id[0]), bool(pending.first_start[0])) == (attempt.workload_id, False)
    assert (int(pending.first_submit_at[0]), int(pending.queued_at[0])) == (EPOCH, EPOCH + 30)


def test_closed_segments_of_the_window_stand_by_standing_and_path(lab: Lab) -> None:
    for at, minimum, project in ((0, 600, lab.nlp), (100, 0, lab.vision)):
        attempt = lab.start(at, gpus=2, minimum=minimum, project=project)
        lab.report(attempt.claims.all()[0].host, at + 50, exited={(attempt, 0): 0})
    snapshot = snapshot_at(lab, 160)
    assert snapshot.charged.gpus.tolist() == snapshot.unallocated.gpus.tolist() == [2]
    assert snapshot.paths[int(snapshot.charged.path[0])] == (lab.root.pk, lab.nlp.pk)
    assert snapshot.paths[int(snapshot.unallocated.path[0])] == (lab.root.pk, lab.vision.pk)


def test_segments_that_ended_before_the_window_are_left_out(lab: Lab) -> None:
    attempt = lab.start(0, minimum=600)
    lab.report(lab.hosts[0], 50, exited={(attempt, 0): 0})
    week = 7 * 86_400
    assert len(snapshot_at(lab, week + 49).charged.gpus) == 1
    assert len(snapshot_at(lab, week + 50).charged.gpus) == 0


def test_a_usage_path_is_the_one_that_was_charged_even_when_the_project_has_moved(lab: Lab) -> None:
    attempt = lab.start(0, minimum=600)
    lab.report(lab.hosts[0], 50, exited={(attempt, 0): 0})
    path = [lab.root.pk, lab.vision.pk]
    Segment.objects.update(path=path)
    snapshot = snapshot_at(lab, 60)
    assert snapshot.paths[int(snapshot.charged.path[0])] == tuple(path)


def test_a_cordoned_host_is_there_and_not_schedulable(lab: Lab) -> None:
    host_cordon(host=lab.hosts[1], reason="fan", actor=user_make(is_operator=True), now=after(5))
    hosts = snapshot_at(lab, 10).hosts
    assert hosts.schedulable.tolist() == [True, False]
    assert snapshot_at(lab, 10).capacity.gpus.tolist()[-1] == 8


def test_the_policy_is_the_clusters_own_over_the_defaults(lab: Lab) -> None:
    from portal.clusters.services import policy_change

    policy_change(
        cluster=lab.cluster,
        overrides={"lookback_seconds": 86_400, "leaf_order": ["submitted"]},
        reason="shorter",
        author=user_make(is_operator=True),
        base_version=0,
        now=after(0),
    )
    expected: dict[str, Any] = {"lookback_seconds": 86_400, "leaf_order": ("submitted",)}
    assert policy_of(cluster=lab.cluster) == Policy(**expected)


def test_the_portals_settings_are_the_cores_with_the_same_defaults_and_bounds() -> None:
    from portal.clusters.policies import POLICY_SETTINGS, policy_defaults
    from scheduler.types import POLICY_BOUNDS

    ours = {name: (row.least, row.most, row.unit, row.optional) for name, row in POLICY_SETTINGS.items()}
    cores = {name: (row.least, row.most, row.unit, row.optional) for name, row in POLICY_BOUNDS.items()}
    assert ours == cores
    defaults = {**policy_defaults(), "leaf_order": tuple(policy_defaults()["leaf_order"])}
    assert Policy(**defaults) == Policy()
