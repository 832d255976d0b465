"""Digests: who is told what, once, and at most in one mail a day."""

from datetime import timedelta
from smtplib import SMTPException

import pytest
from django.core.mail import EmailMessage

from portal.proposals.models import Digest, DigestItem, GrantRequest
from portal.proposals.services.decisions import proposal_approve
from portal.proposals.services.digests import digests_send
from portal.proposals.services.requests import request_decline
from portal.proposals.tasks import digests
from tests.factories import budget_make
from tests.proposals.scene import NOW, proposal_make, request_make

MORNING = NOW.replace(hour=9)


def mails(outbox):
    return {mail.to[0].partition("@")[0]: mail.body for mail in outbox}


def grant_make(scene, days, **given):
    """A granted request that ends in so many days."""
    request = request_make(scene, until_at=MORNING + timedelta(days=days), **given)
    GrantRequest.objects.filter(pk=request.pk).update(state="granted", submitted_at=NOW - timedelta(days=60))
    return request


def test_several_budgets_that_end_in_one_week_are_one_digest_and_again_sends_nothing(scene, mailoutbox):
    for days in (3, 4, 6):
        grant_make(scene, days, title=f"ends in {days}", from_at=NOW, gpus=days)
    grant_make(scene, 8, title="ends later", from_at=NOW, gpus=8)
    assert digests_send(now=MORNING) == 3
    vera = mails(mailoutbox)["vera"]
    assert [f"The grant of {gpus} GPUs to lab/vision ends" in vera for gpus in (3, 4, 6, 8)] == [True] * 3 + [False]
    assert len(mailoutbox) == 3
    assert digests_send(now=MORNING) == 0
    assert digests_send(now=MORNING + timedelta(hours=5)) == 0
    assert len(mailoutbox) == 3


def test_what_was_told_is_not_told_the_next_day(scene, mailoutbox):
    grant_make(scene, 5, from_at=NOW)
    digests_send(now=MORNING)
    grant_make(scene, 6, from_at=NOW, gpus=6)
    mailoutbox.clear()
    assert digests_send(now=MORNING + timedelta(days=1)) == 3
    assert "6 GPUs" in mails(mailoutbox)["vera"]
    assert "20 GPUs" not in mails(mailoutbox)["vera"]


def test_a_planned_change_that_takes_a_budget_away_is_told(scene, mailoutbox):
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"nlp": 30}, at=MORNING + timedelta(days=2))
    digests_send(now=MORNING)
    told = mails(mailoutbox)
    assert "The budget of lab/vision on local ends" in told["vera"]
    assert "nils" not in told


def test_managers_are_told_of_a_request_and_its_author_of_the_answer(scene, mailoutbox):
    request = request_make(scene)
    digests_send(now=MORNING)
    told = mails(mailoutbox)
    assert sorted(told) == ["max", "mona"]
    assert "vera asks for 20 GPUs for lab/vision: A larger detector" in told["max"]
    mailoutbox.clear()
    request_decline(request=request, actor=scene.mona, reason="Not before spring.", now=NOW)
    digests_send(now=MORNING + timedelta(days=1))
    assert sorted(mails(mailoutbox)) == ["vera"]
    assert "declined: A larger detector. Not before spring." in mails(mailoutbox)["vera"]


def test_who_does_it_is_not_told_of_it(scene, mailoutbox):
    proposal = proposal_make(scene)
    digests_send(now=MORNING)
    assert sorted(mails(mailoutbox)) == ["max"]
    mailoutbox.clear()
    proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    digests_send(now=MORNING + timedelta(days=1))
    assert sorted(mails(mailoutbox)) == ["mona"]
    assert "max approved “More for vision” for lab. Agreed." in mails(mailoutbox)["mona"]


def test_who_asked_and_does_not_see_the_level_is_told_of_the_request_alone(scene, mailoutbox):
    request = request_make(scene)
    proposal = proposal_make(scene, requests=[request.pk])
    proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    digests_send(now=MORNING)
    vera = mails(mailoutbox)["vera"]
    assert "Your request was granted: A larger detector" in vera
    assert "More for vision" not in vera


def test_nothing_is_sent_before_the_hour_or_where_it_is_turned_off(scene, mailoutbox, settings):
    request_make(scene)
    assert digests_send(now=NOW.replace(hour=7, minute=59)) == 0
    settings.DIGEST_HOUR = -1
    assert digests_send(now=MORNING) == 0
    assert not mailoutbox


def test_the_day_is_the_sites(scene, mailoutbox, settings):
    request_make(scene)
    settings.SITE_ZONE = "Asia/Shanghai"
    assert digests_send(now=NOW.replace(hour=0)) == 2
    assert digests_send(now=NOW.replace(hour=15)) == 0


def test_nobody_is_mailed_without_an_address_or_after_leaving(scene, mailoutbox):
    request_make(scene)
    type(scene.mona).objects.filter(pk=scene.mona.pk).update(email="")
    type(scene.max).objects.filter(pk=scene.max.pk).update(is_active=False)
    assert digests_send(now=MORNING) == 0


def test_a_mail_that_fails_is_sent_later_and_keeps_nobody_elses_back(scene, mailoutbox, monkeypatch):
    request_make(scene)
    send = EmailMessage.send

    def fails_for_mona(mail, **options):
        if mail.to == ["mona@lab.example"]:
            raise SMTPException("mailbox full")
        return send(mail, **options)

    monkeypatch.setattr(EmailMessage, "send", fails_for_mona)
    assert digests_send(now=MORNING) == 1
    assert list(Digest.objects.values_list("person__username", flat=True)) == ["max"]
    assert DigestItem.objects.count() == 1
    monkeypatch.undo()
    assert digests_send(now=MORNING) == 1
    assert sorted(mails(mailoutbox)) == ["max", "mona"]


def test_words_of_people_stay_on_their_line(scene, mailoutbox, settings):
    settings.SITE_URL = "https://commons.example"
    request = request_make(scene, title="one\r\nBcc: all@lab.example\n- two")
    digests_send(now=MORNING)
    body = mails(mailoutbox)["max"]
    assert "one Bcc: all@lab.example - two" in body
    assert f"https://commons.example/proposals/requests/{request.pk}/" in body
    assert not mailoutbox[0].bcc


@pytest.mark.django_db
def test_the_task_runs_where_there_is_nothing_to_tell(mailoutbox):
    assert digests() == 0
    assert not mailoutbox
