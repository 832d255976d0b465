"""Cancelling, seeing, and reading output."""

import pytest

from portal.common.errors import Forbidden, NotFound
from portal.workloads.models import LogChunk
from portal.workloads.selectors import queue_rows, workload_log, workloads_visible
from portal.workloads.services import workload_cancel
from tests.factories import (
    START,
    after,
    attempt_make,
    cluster_make,
    host_make,
    project_make,
    user_make,
    workload_make,
)

pytestmark = pytest.mark.django_db


def test_a_waiting_workload_ends_at_once() -> None:
    author = user_make()
    workload = workload_make(project=project_make(), author=author)
    cancelled = workload_cancel(workload=workload, actor=author, now=after(5))
    assert (cancelled.state, cancelled.ended_at, cancelled.cancelled_by) == ("cancelled", after(5), author)


def test_a_running_workload_is_asked_to_stop_and_runs_until_it_has() -> None:
    cluster = cluster_make()
    workload = workload_make(project=project_make(), cluster=cluster)
    attempt_make(workload=workload, hosts=[host_make(cluster=cluster)])
    cancelled = workload_cancel(workload=workload, actor=None, now=after(5))
    assert (cancelled.state, cancelled.cancel_requested_at) == ("running", after(5))


def test_cancelling_twice_changes_nothing() -> None:
    workload = workload_make(project=project_make())
    workload_cancel(workload=workload, actor=None, now=after(5))
    again = workload_cancel(workload=workload, actor=None, now=after(9))
    assert again.ended_at == after(5)
    assert workload.events.count() == 1


def test_a_colleague_may_not_cancel_a_lead_may_and_a_stranger_sees_nothing() -> None:
    project = project_make("lab/nlp")
    workload = workload_make(project=project)
    with pytest.raises(Forbidden):
        workload_cancel(workload=workload, actor=user_make(project=project), now=START)
    with pytest.raises(NotFound):
        workload_cancel(workload=workload, actor=user_make(), now=START)
    lead = user_make(project=project_make("lab"), role="lead")
    assert workload_cancel(workload=workload, actor=lead, now=START).state == "cancelled"


def test_people_see_the_workloads_of_their_projects_and_their_own() -> None:
    mine, other = project_make("lab/nlp"), project_make("lab/vision")
    user = user_make(project=mine)
    colleague = workload_make(project=mine)
    own = workload_make(project=other, author=user)
    workload_make(project=other)
    assert set(workloads_visible(user=user)) == {colleague, own}


def test_the_queue_is_in_the_order_of_positions_then_of_first_submits() -> None:
    project, cluster = project_make("lab/nlp"), cluster_make()
    user = user_make(project=project)
    unplaced = [workload_make(project=project, cluster=cluster, submitted_at=after(at)) for at in (20, 10)]
    placed = [
        workload_make(project=project, cluster=cluster, reason={"position": position, "gpus_ahead": 8})
        for position in (10, 9)
    ]
    rows = queue_rows(user=user, cluster=cluster)
    assert [row.workload_id for row in rows] == [placed[1].pk, placed[0].pk, unplaced[1].pk, unplaced[0].pk]
    assert (rows[0].position, rows[0].gpus_ahead, rows[0].project) == (9, 8, "lab/nlp")


def test_the_queue_is_paged_and_narrowed_to_a_project_and_all_below_it() -> None:
    cluster = cluster_make()
    operator = user_make(is_operator=True)
    arms = workload_make(project=project_make("lab/robotics/arms"), cluster=cluster)
    workload_make(project=project_make("lab/nlp"), cluster=cluster)
    rows = queue_rows(user=operator, project=project_make("lab/robotics"))
    assert [row.workload_id for row in rows] == [arms.pk]
    assert len(queue_rows(user=operator, limit=1, offset=1)) == 1


def test_output_is_read_from_any_byte_on() -> None:
    cluster = cluster_make()
    workload = workload_make(project=project_make(), cluster=cluster)
    attempt = attempt_make(workload=workload, hosts=[host_make(cluster=cluster)])
    for offset, data in ((0, b"hello "), (6, b"world"), (20, b"after a gap")):
        LogChunk.objects.create(attempt=attempt, replica=0, offset=offset, data=data, received_at=START)
    gap = b"\n[GPU Commons: 9 bytes of this output are left out here.]\n"
    assert workload_log(workload=workload) == b"hello world" + gap + b"after a gap"
    assert workload_log(workload=workload, offset=3, limit=5) == b"lo wo"
    assert workload_log(workload=workload, offset=8, limit=3) == b"rld"
    assert workload_log(workload=workload, replica=1) == b""
    assert workload_log(workload=workload, attempt=7) == b""


def test_a_workload_that_never_ran_has_no_output() -> None:
    assert workload_log(workload=workload_make(project=project_make())) == b""
