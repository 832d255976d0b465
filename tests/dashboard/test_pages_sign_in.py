"""Signing in and the first password, in our words; the audit log in words too."""

import pytest
from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.test import Client
from django.urls import reverse

from portal.common.services import audit_record
from portal.dashboard.templatetags.commons import action_words
from tests.dashboard.scene import client_of
from tests.factories import after, user_make


def test_the_sign_in_form_says_each_thing_once(db):
    page = Client().get(reverse("account_login")).content.decode()
    assert "Stay signed in on this device" in page
    assert "Remember" not in page
    assert "placeholder" not in page


def test_a_wrong_password_is_said_plainly(scene):
    answer = Client().post(reverse("account_login"), {"login": scene.member.username, "password": "not this one"})
    assert "User name and password do not belong together." in answer.content.decode()


def link_of(user):
    token = default_token_generator.make_token(user)
    path = reverse("account_reset_password_from_key", kwargs={"uidb36": user_pk_to_url_str(user), "key": token})
    return path


def test_a_first_password_is_set_by_a_link_and_then_one_signs_in(db):
    browser, user = Client(), user_make(username="first")
    form = browser.get(link_of(user), follow=True)
    assert "<h1>Set the password</h1>" in form.content.decode()
    password = "Kirschbaum-7-lang"  # noqa: S105 - of this test's own account
    done = browser.post(form.request["PATH_INFO"], {"password1": password, "password2": password}, follow=True)
    assert "<h1>The password is set</h1>" in done.content.decode()
    assert f'href="{reverse("account_login")}"' in done.content.decode()
    assert Client().login(username="first", password=password)


def test_a_used_link_says_so_and_leads_to_signing_in(db):
    page = Client().get(reverse("account_reset_password_from_key", kwargs={"uidb36": "1", "key": "x-y"})).content
    assert b"This link is used or too old" in page


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("is_superuser", True, ">administrator</span> yes"),
        ("cordoned_at", "2026-11-02T10:20:30+00:00", ">cordoned</span> 2 Nov 2026 10:20:30"),
        ("gpu_model", "", ">gpu model</span> –"),
        ("share_ppm", 250000, ">share</span> 25 %"),
    ],
)
def test_the_audit_log_speaks_in_words(scene, field, value, words):
    audit_record(actor=None, action="x", target=scene.host, before={}, after={field: value}, now=after(1))
    assert words in client_of(scene.operator).get("/audit/").content.decode()


def test_a_member_is_told_that_the_audit_log_is_not_for_the_role(scene):
    answer = client_of(scene.member).get("/audit/")
    assert answer.status_code == 403
    assert "You may see this" not in answer.content.decode()


@pytest.mark.parametrize(
    ("action", "words"),
    [("budget_change_create", "Budget change created"), ("workload_cancel", "Workload cancelled"), ("x_set", "X set")],
)
def test_an_action_is_said_as_what_was_done(action, words):
    assert action_words(action) == words


def test_what_was_made_has_no_before(scene):
    audit_record(actor=None, action="x", target=scene.host, before={}, after={"name": "gpu-01"}, now=after(1))
    assert '<span class="quiet">new</span>' in client_of(scene.operator).get("/audit/").content.decode()
