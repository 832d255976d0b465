"""The first administrator of an organisation of one's own: from the environment, a question, or a one-time link."""

import getpass
import os
import sys
from datetime import datetime

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.urls import reverse

from portal.common.errors import Refused
from portal.projects.models import User
from portal.projects.services import user_create

DEFAULT_USERNAME = "admin"


def administrator_exists() -> bool:
    """Whether somebody can already sign in as an administrator."""
    people = User.objects.filter(is_superuser=True, is_active=True)
    return any(person.has_usable_password() for person in people)


def administrator_first(*, url: str, now: datetime) -> str:
    """Make the first administrator if there is none; returns what to tell the terminal."""
    if administrator_exists():
        return ""
    if os.environ.get("ADMIN_USER") or os.environ.get("ADMIN_PASSWORD"):
        return _from_environment(now)
    if sys.stdin.isatty():
        return _from_questions(now)
    return _by_link(url, now)


def _from_environment(now: datetime) -> str:
    username, password = os.environ.get("ADMIN_USER", ""), os.environ.get("ADMIN_PASSWORD", "")
    if not username or not password:
        raise Refused("Give both ADMIN_USER and ADMIN_PASSWORD, or neither.")
    _made(username, password, now)
    return f"Administrator {username} was made; sign in with the password of ADMIN_PASSWORD."


def _from_questions(now: datetime) -> str:
    print("Nobody can sign in yet: make the first administrator.")
    while True:
        username = input(f"User name [{DEFAULT_USERNAME}]: ").strip() or DEFAULT_USERNAME
        password = getpass.getpass("Password: ")
        if password != getpass.getpass("The same again: "):
            print("The two differ.")
            continue
        try:
            _made(username, password, now)
        except Refused as refusal:
            print(refusal.detail)
            continue
        return f"Administrator {username} was made."


def _made(username: str, password: str | None, now: datetime) -> User:
    waiting = User.objects.filter(username=username, is_superuser=True).first()
    if waiting is not None and not waiting.has_usable_password():
        waiting.delete()  # made for a link that nobody has used
    return user_create(username=username, password=password, actor=None, now=now, is_superuser=True)


def _by_link(url: str, now: datetime) -> str:
    user = User.objects.filter(username=DEFAULT_USERNAME, is_superuser=True).first()
    if user is None:
        user = user_create(username=DEFAULT_USERNAME, password=None, actor=None, now=now, is_superuser=True)
    token = default_token_generator.make_token(user)
    path = reverse("account_reset_password_from_key", kwargs={"uidb36": user_pk_to_url_str(user), "key": token})
    days = settings.PASSWORD_RESET_TIMEOUT // 86_400
    return (
        f"Nobody can sign in yet. Set the password of {DEFAULT_USERNAME} once, within {days} days, at\n"
        f"  {url.rstrip('/')}{path}"
    )
