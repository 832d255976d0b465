"""Hosts: who outranks whom, and the history that quota is computed from."""

import pytest
from pytest_django import DjangoAssertNumQueries

from portal.clusters.health import host_recovered, host_unhealthy
from portal.clusters.models import Host, HostEvent, HostSpan
from portal.clusters.selectors import capacity_steps
from portal.clusters.services import (
    host_cordon,
    host_heard,
    host_register,
    host_silent,
    host_uncordon,
)
from portal.common.errors import Forbidden, Refused
from portal.common.models import AuditEntry
from tests.factories import START, after, cluster_make, host_make, user_make

pytestmark = pytest.mark.django_db


def registered(gpus: int = 8) -> Host:
    return host_register(
        cluster=cluster_make(),
        name="node-1",
        gpus=gpus,
        gpu_model="H100",
        simulated=True,
        public_key=b"k" * 32,
        now=START,
    )


def states(host: Host) -> list[tuple[str, int, int | None]]:
    spans = HostSpan.objects.filter(host=host).order_by("start_at")
    seconds = [
        (span.state, span.start_at.timestamp(), span.end_at.timestamp() if span.end_at else None) for span in spans
    ]
    base = START.timestamp()
    return [(state, int(start - base), None if end is None else int(end - base)) for state, start, end in seconds]


def test_a_host_is_unreachable_until_it_is_heard() -> None:
    host = registered()
    assert host.state == "unreachable"
    host_heard(host=host, gpus=8, boot_id="b1", now=after(5))
    assert host.state == "schedulable"
    assert states(host) == [("unreachable", 0, 5), ("schedulable", 5, None)]


def test_hearing_a_host_again_changes_nothing_but_the_time() -> None:
    host = registered()
    host_heard(host=host, gpus=8, boot_id="b1", now=after(5))
    events = HostEvent.objects.filter(host=host).count()
    host_heard(host=host, gpus=8, boot_id="b1", now=after(15))
    assert HostEvent.objects.filter(host=host).count() == events
    assert len(states(host)) == 2
    host.refresh_from_db()
    assert host.last_heard_at == after(15)


def test_hearing_an_unchanged_host_is_one_update(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    host = registered()
    host_heard(host=host, gpus=8, boot_id="b1", now=after(5))
    with django_assert_num_queries(3):  # savepoint, update, release
        host_heard(host=host, gpus=8, boot_id="b1", now=after(15))


def test_a_cordon_outranks_what_health_says_and_health_shows_again_when_it_is_lifted() -> None:
    operator = user_make(is_operator=True)
    host = registered()
    host_heard(host=host, gpus=8, boot_id="b1", now=after(1))
    host_cordon(host=host, reason="new cooling", actor=operator, now=after(10))
    host_silent(host=host, now=after(20))
    assert host.state == "cordoned"
    host_heard(host=host, gpus=8, boot_id="b1", now=after(25))
    assert host.state == "cordoned"
    host_silent(host=host, now=after(30))
    host_uncordon(host=host, actor=operator, now=after(40))
    assert host.state == "unreachable"


def test_a_person_uncordoning_an_unhealthy_host_makes_it_schedulable() -> None:
    host = host_make(cluster=cluster_make())
    host_unhealthy(host=host, cause="GPU 3 fell off the bus", now=after(10))
    assert host.state == "unhealthy"
    host_uncordon(host=host, actor=user_make(is_operator=True), now=after(20))
    assert host.state == "schedulable"


def test_a_host_that_recovers_keeps_its_cordon() -> None:
    host = host_make(cluster=cluster_make())
    host_unhealthy(host=host, cause="silent kill", now=after(10))
    host_cordon(host=host, reason="look at it", actor=None, now=after(11))
    host_recovered(host=host, now=after(12))
    assert host.state == "cordoned"


def test_a_member_may_not_cordon() -> None:
    host = host_make(cluster=cluster_make())
    with pytest.raises(Forbidden):
        host_cordon(host=host, reason="mine", actor=user_make(), now=after(1))


def test_a_cordon_needs_a_reason() -> None:
    host = host_make(cluster=cluster_make())
    with pytest.raises(Refused) as refused:
        host_cordon(host=host, reason=" ", actor=None, now=after(1))
    assert refused.value.errors[0].attr == "reason"


def test_a_cordon_leaves_an_audit_line_with_from_and_to() -> None:
    host = host_make(cluster=cluster_make())
    operator = user_make(is_operator=True)
    host_cordon(host=host, reason="repair", actor=operator, now=after(1))
    entry = AuditEntry.objects.get(action="host_cordon")
    assert (entry.actor, entry.before["cordoned"], entry.after["cordoned"]) == (operator, False, True)


def test_two_changes_within_one_second_leave_one_span() -> None:
    host = host_make(cluster=cluster_make())
    host_cordon(host=host, reason="oops", actor=None, now=after(10))
    host_uncordon(host=host, actor=None, now=after(10))
    assert states(host) == [("schedulable", 0, 10), ("schedulable", 10, None)]


def test_a_step_back_of_the_clock_counts_as_no_time() -> None:
    host = host_make(cluster=cluster_make())
    host_cordon(host=host, reason="repair", actor=None, now=after(100))
    host_uncordon(host=host, actor=None, now=after(40))
    assert states(host) == [("schedulable", 0, 100), ("schedulable", 100, None)]


def test_a_host_that_lost_a_gpu_has_a_new_span() -> None:
    host = host_make(cluster=cluster_make(), boot_id="b1")
    host_heard(host=host, gpus=7, boot_id="b1", now=after(60))
    assert list(HostSpan.objects.filter(host=host).values_list("gpus", flat=True)) == [8, 7]


def test_registering_again_with_a_new_key_starts_the_count_of_reports_anew() -> None:
    host = registered()
    Host.objects.filter(pk=host.pk).update(report_sequence=41)
    again = host_register(
        cluster=host.cluster,
        name="node-1",
        gpus=8,
        gpu_model="H100",
        simulated=True,
        public_key=b"n" * 32,
        now=after(9),
    )
    assert again.pk == host.pk
    assert again.report_sequence == 0


def test_wrong_fields_of_a_host_are_refused_together() -> None:
    with pytest.raises(Refused) as refused:
        host_register(
            cluster=cluster_make(), name="a b", gpus=0, gpu_model="", simulated=False, public_key=b"short", now=START
        )
    assert {error.attr for error in refused.value.errors} == {"name", "gpus", "public_key"}


def test_capacity_counts_schedulable_and_installed_gpus_over_time() -> None:
    cluster = cluster_make()
    first = host_make(cluster=cluster)
    host_make(cluster=cluster, gpus=4, registered_at=after(50))
    host_cordon(host=first, reason="repair", actor=None, now=after(100))
    host_uncordon(host=first, actor=None, now=after(200))
    steps = [tuple(step) for step in capacity_steps(cluster=cluster, since=after(0))]
    assert steps == [(after(0), 8, 8), (after(50), 12, 12), (after(100), 4, 12), (after(200), 12, 12)]


def test_capacity_from_the_middle_of_a_span_starts_there() -> None:
    cluster = cluster_make()
    host_make(cluster=cluster)
    assert [tuple(step) for step in capacity_steps(cluster=cluster, since=after(77))] == [(after(77), 8, 8)]


def test_capacity_is_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    cluster = cluster_make()
    for _ in range(3):
        host_make(cluster=cluster)
    with django_assert_num_queries(1):
        capacity_steps(cluster=cluster, since=START)
