"""R12 as rows: a gang that can't start keeps hosts and a time over passes, and starts by then."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from portal.clusters.services import host_cordon, policy_change
from portal.common.units import moment_of
from portal.scheduling.models import Reservation, ReservationEnd
from portal.scheduling.reservations import reservations_make, reservations_release, reservations_shift
from portal.scheduling.round import Round
from portal.scheduling.snapshot import policy_of, snapshot_read
from portal.scheduling.words import Words
from portal.usage.rows import workload_detail
from portal.workloads.models import Attempt, AttemptState, Standing, Workload, WorkloadEvent, WorkloadState
from portal.workloads.services import workload_cancel
from scheduler.types import Code, Release, Reserve, Shift, reason
from tests.factories import after, user_make
from tests.scheduling.conftest import Lab, attempt_of, fresh, seconds

HOUR = 3600


class Busy(Lab):
    """Both hosts are full of protected work of vision, for one hour and for two; a gang of nlp needs both."""

    def __init__(self) -> None:
        super().__init__()
        policy_change(
            cluster=self.cluster,
            overrides={"licence_margin_ppm": 1000},
            reason="a small lead is enough",
            author=user_make(is_operator=True),
            base_version=0,
            now=after(0),
        )
        self.first = self.start(0, project=self.vision, gpus=8, minimum=HOUR)
        self.second = self.start(0, project=self.vision, gpus=8, minimum=2 * HOUR)
        self.gang = self.submit(at=60, gpus=8, replicas=2, minimum=HOUR)
        self.make_pass(60)

    def kept(self, workload: Workload | None = None) -> Reservation:
        """The reservation of the gang that stands."""
        return Reservation.objects.get(workload=workload or self.gang, ended_at=None)

    def end(self, attempt: Attempt, at: int) -> None:
        """The attempt's one replica has exited well."""
        self.report(attempt.claims.all()[0].host, at, exited={(attempt, 0): 0})


@pytest.fixture
def busy(db: None) -> Busy:
    return Busy()


def told(workload: Workload, kind: str) -> list[WorkloadEvent]:
    return list(WorkloadEvent.objects.filter(workload=workload, kind=kind).order_by("pk"))


def step_at(lab: Lab, at: int) -> Round:
    return Round(lab.cluster, after(at))


def test_a_gang_that_waits_gets_hosts_and_a_time(busy: Busy) -> None:
    kept = busy.kept()
    assert kept.placement == [[busy.hosts[0].pk, 1], [busy.hosts[1].pk, 1]]
    assert seconds(kept.made_at) == 60
    assert 2 * HOUR <= seconds(kept.at) <= 2 * HOUR + 300
    assert sorted(kept.takings) == sorted([busy.first.workload_id, busy.second.workload_id])
    assert [event.code for event in told(busy.gang, "reserved")] == ["reserved_head"]


def test_its_reason_names_hosts_and_time(busy: Busy) -> None:
    row = fresh(busy.gang)
    assert row.reason_code == "reserved"
    assert re.search(r"2 hosts reserved, first lab-0; starts by 2026-11-02 02:0\d UTC", row.reason_text)
    assert row.reason["reserved_hosts"] == [{"host": "lab-0", "replicas": 1}, {"host": "lab-1", "replicas": 1}]
    # What it takes then has its grace time of a minute, and it has a minute to start.
    assert moment_of(row.reason["starts_by_at"]) == busy.kept().at + timedelta(seconds=120)


def test_a_contract_that_is_too_large_to_lead_is_told_what_would_do(busy: Busy) -> None:
    Reservation.objects.update(ended_at=after(65), end=ReservationEnd.HOST_LOST)
    Workload.objects.filter(pk=busy.gang.pk).update(min_runtime_seconds=4 * HOUR)
    busy.make_pass(70)
    row = fresh(busy.gang)
    assert row.reason_code == "contract_too_large"
    assert re.search(r"Waits until it fits: .* lab/nlp .* A minimum runtime of 1 h \d+ min would do", row.reason_text)
    assert HOUR < row.reason["longest_seconds"] < 2 * HOUR
    assert not Reservation.objects.filter(ended_at=None).exists()


def test_it_stands_over_passes_as_it_was_made(busy: Busy) -> None:
    before = Reservation.objects.values().get()
    for at in (70, 600, HOUR - 10):
        busy.make_pass(at)
    assert Reservation.objects.values().get() == before
    assert len(told(busy.gang, "reserved")) == 1


def test_two_passes_at_one_instant_change_nothing(busy: Busy) -> None:
    before = (list(Reservation.objects.values()), list(Workload.objects.values()), WorkloadEvent.objects.count())
    again = busy.make_pass(60)
    assert (again.starts, again.preempts, again.stale, again.error) == (0, 0, 0, "")
    now = (list(Reservation.objects.values()), list(Workload.objects.values()), WorkloadEvent.objects.count())
    assert now == before


def test_it_starts_by_its_time_on_what_was_kept_for_it(busy: Busy) -> None:
    at = seconds(busy.kept().at)
    for moment in (HOUR, 2 * HOUR, at):
        busy.make_pass(moment)
        busy.all_stop(moment)
        busy.make_pass(moment + 5)
        busy.all_run(moment + 5)
    attempt = attempt_of(busy.gang)
    assert seconds(attempt.decided_at) <= at
    assert (attempt.state, attempt.standing) == (AttemptState.RUNNING, Standing.PROTECTED)
    row = Reservation.objects.get()
    assert (row.end, row.ended_at) == (ReservationEnd.STARTED, attempt.decided_at)


def test_small_work_that_ends_in_time_runs_before_it_and_longer_work_unallocated(busy: Busy) -> None:
    busy.end(busy.first, HOUR)
    short = busy.submit(at=HOUR, gpus=2, minimum=HOUR // 2)
    long = busy.submit(at=HOUR, gpus=2, minimum=3 * HOUR)
    busy.make_pass(HOUR)
    assert attempt_of(short).standing == Standing.PROTECTED
    assert (attempt_of(long).standing, attempt_of(long).reason_code) == (Standing.UNALLOCATED, "unreserved_start")
    assert busy.kept().workload_id == busy.gang.pk


def test_a_cancel_releases_its_hosts_and_its_author_reserves_nothing_for_a_day(busy: Busy) -> None:
    workload_cancel(workload=busy.gang, actor=busy.author, now=after(120))
    other = busy.submit(at=120, gpus=8, replicas=2, minimum=HOUR)
    busy.make_pass(130)
    assert Reservation.objects.get().end == ReservationEnd.CANCELLED
    assert [event.text for event in told(busy.gang, "released")] == [
        f"Its reservation is over: it was cancelled. {busy.author.username} gets no other for 1 d."
    ]
    assert fresh(other).reason_code != "reserved"
    reserved = snapshot_read(cluster=busy.cluster, policy=policy_of(cluster=busy.cluster), now=after(140)).reserved
    assert reserved is not None
    assert reserved.cancelled.author.tolist() == [busy.author.pk]
    assert reserved.cancelled.cancelled_at.tolist() == [int(after(120).timestamp())]


def test_another_author_gets_what_the_one_who_cancelled_gave_back(busy: Busy) -> None:
    workload_cancel(workload=busy.gang, actor=busy.author, now=after(120))
    other = busy.submit(at=120, gpus=8, replicas=2, minimum=HOUR, author=user_make(project=busy.root))
    busy.make_pass(130)
    assert busy.kept(other).made_at == after(130)


def test_a_cancel_by_the_system_bans_nobody(busy: Busy) -> None:
    workload_cancel(workload=busy.gang, actor=None, now=after(120))
    other = busy.submit(at=120, gpus=8, replicas=2, minimum=HOUR)
    busy.make_pass(130)
    assert busy.kept(other).made_at == after(130)
    assert told(busy.gang, "released")[0].text == "Its reservation is over: it was cancelled."


def test_a_lost_host_releases_it(busy: Busy) -> None:
    host_cordon(host=busy.hosts[1], reason="fan", actor=user_make(is_operator=True), now=after(100))
    busy.make_pass(110)
    assert Reservation.objects.get().end == ReservationEnd.HOST_LOST
    [event] = told(busy.gang, "released")
    assert (event.code, event.text) == ("reserved_host_lost", "Its reservation is over: lab-1 takes no attempts now.")
    assert fresh(busy.gang).reason_code == "no_schedulable_host"


def test_one_that_started_in_another_cluster_is_given_back(busy: Busy) -> None:
    Workload.objects.filter(pk=busy.gang.pk).update(state=WorkloadState.RUNNING)
    busy.make_pass(70)
    assert Reservation.objects.get().end == ReservationEnd.ELSEWHERE
    assert [event.code for event in told(busy.gang, "released")] == ["elsewhere"]


def test_orders_whose_rows_have_moved_on_are_stale(busy: Busy) -> None:
    words, why = Words(busy.cluster), reason(Code.RESERVED_HEAD, at=0, starts_by_at=120, hosts=1, gpus=8)
    at = int(after(HOUR).timestamp())
    cancelled = busy.submit(at=60, gpus=8, minimum=HOUR)
    workload_cancel(workload=cancelled, actor=None, now=after(65))
    waiting = busy.submit(at=60, gpus=8, minimum=HOUR)
    lost = busy.submit(at=60, gpus=8, minimum=HOUR)
    host_cordon(host=busy.hosts[1], reason="fan", actor=user_make(is_operator=True), now=after(66))
    places = ((busy.gang, 0), (cancelled, 0), (waiting, 0), (lost, 1))
    orders = [Reserve(one.pk, at, ((busy.hosts[host].pk, 1),), (), why) for one, host in places]
    with transaction.atomic():
        assert reservations_make(step_at(busy, 70), orders, words) == 3
    assert set(Reservation.objects.values_list("workload", flat=True)) == {busy.gang.pk, waiting.pk}
    with transaction.atomic():
        gone = Release(lost.pk, reason(Code.RESERVED_HOST_LOST, host=busy.hosts[1].pk))
        assert reservations_release(step_at(busy, 70), [gone], words) == 1


def test_express_starts_move_its_time_once(busy: Busy) -> None:
    words, before = Words(busy.cluster), busy.kept().at
    at = int(before.timestamp()) + 900
    order = Shift(busy.gang.pk, at, reason(Code.EXPRESS_MOVES, moved_seconds=900, at=at, starts_by_at=at + 120))
    with transaction.atomic():
        assert reservations_shift(step_at(busy, 70), [order], words) == 0
        assert reservations_shift(step_at(busy, 70), [order], words) == 1
    assert (busy.kept().at, busy.kept().moved) == (before + timedelta(minutes=15), True)


def test_the_snapshot_gives_it_back_as_it_was_decided(busy: Busy) -> None:
    kept = busy.kept()
    reserved = snapshot_read(cluster=busy.cluster, policy=policy_of(cluster=busy.cluster), now=after(70)).reserved
    assert reserved is not None
    assert (reserved.reservations.id.tolist(), reserved.reservations.workload.tolist()) == ([kept.pk], [busy.gang.pk])
    assert reserved.reservations.at.tolist() == [int(kept.at.timestamp())]
    assert reserved.reservations.made_at.tolist() == [int(after(60).timestamp())]
    assert (reserved.places.host.tolist(), reserved.places.replicas.tolist()) == ([0, 1], [1, 1])
    assert reserved.takings.workload.tolist() == sorted(kept.takings)


def test_a_workload_has_one_that_stands(busy: Busy) -> None:
    fields: dict[str, Any] = {"at": after(HOUR), "made_at": after(60), "placement": []}
    with pytest.raises(IntegrityError), transaction.atomic():
        Reservation.objects.create(cluster=busy.cluster, workload=busy.gang, **fields)
    Reservation.objects.update(ended_at=after(61), end=ReservationEnd.HOST_LOST)
    Reservation.objects.create(cluster=busy.cluster, workload=busy.gang, **fields)


def test_rest_tells_hosts_and_time_with_the_reason(busy: Busy) -> None:
    row = workload_detail(workloads=Workload.objects.all(), workload_id=busy.gang.pk, user=busy.author, now=after(70))
    assert row is not None
    assert row["reason"]["code"] == "reserved"
    assert row["reason"]["starts_by_at"] == busy.kept().at + timedelta(seconds=120)
    assert [place["host"] for place in row["reason"]["reserved_hosts"]] == ["lab-0", "lab-1"]


def test_the_page_shows_hosts_and_time(busy: Busy, client: Client) -> None:
    client.force_login(busy.author)
    page = client.get(reverse("dashboard:workload", args=[busy.gang.pk])).content.decode()
    assert "Reserved: it starts by" in page
    assert page.count("/hosts/lab-") >= 2
