"""Two people at once: exactly one decision counts, and nobody waits for ever."""

import threading

import pytest
from django.db import connection

from portal.budgets.models import BudgetChange
from portal.common.errors import CommonsError
from portal.proposals.models import Digest, GrantRequest, Proposal
from portal.proposals.services.decisions import proposal_approve, proposal_reject
from portal.proposals.services.digests import digests_send
from portal.proposals.services.requests import request_decline, request_withdraw
from tests.factories import user_make
from tests.proposals.scene import NOW, lines_of, proposal_make, request_make, scene_make

pytestmark = pytest.mark.django_db(transaction=True)


def together(*acts):
    """Do them at the same moment, each on a connection of its own: what each returned or was refused with."""
    barrier, outcomes = threading.Barrier(len(acts)), [None] * len(acts)

    def run(place, act):
        try:
            barrier.wait(timeout=10)
            outcomes[place] = act()
        except CommonsError as error:
            outcomes[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place, act)) for place, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    return outcomes


def approve(proposal, actor):
    return lambda: proposal_approve(proposal=proposal, actor=actor, reason="Agreed.", now=NOW)


def reject(proposal, actor):
    return lambda: proposal_reject(proposal=proposal, actor=actor, reason="No.", now=NOW)


def refused(outcomes):
    return [outcome for outcome in outcomes if isinstance(outcome, CommonsError)]


def test_two_approvals_of_one_proposal_write_one_change():
    scene = scene_make()
    third = user_make(role="lead", project=scene.lab)
    proposal = proposal_make(scene)
    outcomes = together(approve(proposal, scene.max), approve(proposal, third))
    assert not refused(outcomes)
    assert BudgetChange.objects.count() == 2


def test_of_two_rivals_one_is_approved_and_the_other_stale():
    scene = scene_make()
    third = user_make(role="lead", project=scene.lab)
    rivals = proposal_make(scene), proposal_make(scene, lines=lines_of(scene, 10, 40))
    outcomes = together(approve(rivals[0], scene.max), approve(rivals[1], third))
    assert [error.status for error in refused(outcomes)] == [409]
    assert sorted(Proposal.objects.values_list("state", flat=True)) == ["approved", "stale"]
    assert BudgetChange.objects.count() == 2


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_of_an_approval_and_a_rejection_one_counts(turn):
    scene = scene_make()
    third = user_make(role="lead", project=scene.lab)
    proposal = proposal_make(scene)
    outcomes = together(approve(proposal, scene.max), reject(proposal, third))
    assert [error.status for error in refused(outcomes)] == [409]
    state = Proposal.objects.get().state
    assert (state, BudgetChange.objects.count()) in [("approved", 2), ("rejected", 1)]


def test_of_a_withdrawal_and_a_decline_one_counts():
    scene = scene_make()
    request = request_make(scene)
    outcomes = together(
        lambda: request_withdraw(request=request, actor=scene.vera, now=NOW),
        lambda: request_decline(request=request, actor=scene.mona, reason="No.", now=NOW),
    )
    assert len(refused(outcomes)) == 1
    assert GrantRequest.objects.get().state in ("withdrawn", "declined")


def test_two_workers_send_one_digest(mailoutbox):
    scene = scene_make()
    request_make(scene)
    together(lambda: digests_send(now=NOW.replace(hour=9)), lambda: digests_send(now=NOW.replace(hour=9)))
    people = [mail.to[0] for mail in mailoutbox]
    assert sorted(people) == ["max@lab.example", "mona@lab.example"]
    assert Digest.objects.count() == 2
