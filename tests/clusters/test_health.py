"""What automation finds about hosts, and who outranks it."""

import pytest

from portal.clusters.health import (
    host_away,
    host_empty,
    host_gone,
    host_override_lift,
    host_ready,
    host_unhealthy,
)
from portal.clusters.models import Host, HostEvent, HostSpan
from portal.clusters.selectors import capacity_steps
from portal.clusters.services import host_cordon, host_heard, host_uncordon
from portal.common.errors import Forbidden
from portal.common.models import AuditEntry
from tests.clusters.test_hosts import states
from tests.factories import after, cluster_make, host_make, user_make

pytestmark = pytest.mark.django_db


def kinds(host: Host) -> list[str]:
    return list(HostEvent.objects.filter(host=host).order_by("pk").values_list("kind", flat=True))


def test_automation_does_not_find_again_what_a_person_has_overridden() -> None:
    """planetlabs/draino#17."""
    host = host_make(cluster=cluster_make())
    host_unhealthy(host=host, cause="keeps work", code="gpus_not_freed", now=after(10))
    host_uncordon(host=host, actor=user_make(is_operator=True), now=after(20))
    assert not host_unhealthy(host=host, cause="keeps other work", code="gpus_not_freed", now=after(30))
    assert host.state == "schedulable"
    assert host_unhealthy(host=host, cause="GPU 3 has fallen off the bus", code="gpu_lost:3", now=after(40))
    assert host.state == "unhealthy"


@pytest.mark.parametrize("how", ["lift", "cordon"])
def test_an_override_holds_until_a_person_lifts_it_or_cordons(how: str) -> None:
    host, operator = host_make(cluster=cluster_make()), user_make(is_operator=True)
    host_unhealthy(host=host, cause="keeps work", now=after(10))
    host_uncordon(host=host, actor=operator, now=after(20))
    if how == "lift":
        host_override_lift(host=host, actor=operator, now=after(30))
        assert AuditEntry.objects.filter(action="host_override_lift", actor=operator).count() == 1
    else:
        host_cordon(host=host, reason="look again", actor=operator, now=after(30))
        host_uncordon(host=host, actor=operator, now=after(31))
    host_unhealthy(host=host, cause="keeps work", now=after(40))
    assert host.state == "unhealthy"


def test_a_member_may_not_lift_an_override() -> None:
    with pytest.raises(Forbidden):
        host_override_lift(host=host_make(cluster=cluster_make()), actor=user_make(), now=after(1))


def test_an_uncordon_of_a_healthy_host_overrides_nothing() -> None:
    host = host_make(cluster=cluster_make())
    host_cordon(host=host, reason="fans", actor=None, now=after(1))
    host_uncordon(host=host, actor=None, now=after(2))
    assert (host.overridden_codes, host.overridden_at) == ([], None)


def test_a_fatal_fault_is_not_replaced_by_a_lesser_cause() -> None:
    host = host_make(cluster=cluster_make())
    host_unhealthy(host=host, cause="GPU 3 has fallen off the bus", code="gpu_lost:3", now=after(10))
    host_unhealthy(host=host, cause="keeps work", now=after(20))
    assert host.state_cause == "GPU 3 has fallen off the bus"


def test_a_gone_hosts_history_ends_at_its_last_heartbeat_and_goes_on_when_it_is_empty() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster, last_heard_at=after(100), boot_id="b1")
    host_gone(host=host, now=after(170))
    host_gone(host=host, now=after(180))
    assert states(host) == [("schedulable", 0, 100), ("unreachable", 100, None)]
    host_heard(host=host, gpus=8, boot_id="b1", now=after(300))
    assert (host.state, host.state_cause) == (
        "unreachable",
        "Heard again; takes work once it says that it is empty.",
    )
    host_empty(host=host, now=after(320))
    assert host.state == "schedulable"
    assert kinds(host) == ["gone", "heard", "empty"]
    usable = [(step.at, step.schedulable_gpus) for step in capacity_steps(cluster=cluster, since=after(0))]
    assert usable == [(after(0), 8), (after(100), 0), (after(320), 8)]


def test_time_under_a_cordon_stays_cordoned_when_the_host_turns_out_to_be_gone() -> None:
    host = host_make(cluster=cluster_make(), last_heard_at=after(100))
    host_cordon(host=host, reason="fans", actor=None, now=after(130))
    host_gone(host=host, now=after(170))
    assert states(host) == [("schedulable", 0, 100), ("unreachable", 100, 130), ("cordoned", 130, None)]


def test_a_machine_that_was_started_anew_was_away_since_its_last_heartbeat() -> None:
    host = host_make(cluster=cluster_make(), last_heard_at=after(100), boot_id="b1")
    host_heard(host=host, gpus=8, boot_id="b2", now=after(1300))
    assert states(host) == [("schedulable", 0, 100), ("unreachable", 100, 1300), ("schedulable", 1300, None)]


def test_an_absence_found_again_changes_nothing() -> None:
    host = host_make(cluster=cluster_make(), last_heard_at=after(100))
    for _ in range(2):
        host_away(host=host, since=after(100), now=after(200))
    assert [state for state in states(host) if state[1] != state[2]] == [
        ("schedulable", 0, 100),
        ("unreachable", 100, 200),
        ("schedulable", 200, None),
    ]


def test_only_a_host_that_was_taken_out_is_ready_for_repair() -> None:
    host = host_make(cluster=cluster_make())
    host_ready(host=host, now=after(5))
    assert host.ready_at is None
    host_cordon(host=host, reason="fans", actor=None, now=after(10))
    for at in (20, 30):
        host_ready(host=host, now=after(at))
    assert host.ready_at == after(20)
    assert kinds(host) == ["cordoned", "ready"]
    host_uncordon(host=host, actor=None, now=after(40))
    assert Host.objects.get(pk=host.pk).ready_at is None


def test_no_two_spans_of_a_host_overlap_after_it_was_gone_again_and_again() -> None:
    host = host_make(cluster=cluster_make(), last_heard_at=after(0), boot_id="b1")
    for at in range(0, 1000, 100):
        host_heard(host=host, gpus=8, boot_id="b1", now=after(at))
        host_empty(host=host, now=after(at))
        host_gone(host=host, now=after(at + 70))
    spans = list(HostSpan.objects.filter(host=host).order_by("start_at"))
    assert all(one.end_at == two.start_at for one, two in zip(spans, spans[1:], strict=False))
