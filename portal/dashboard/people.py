"""Who asks, for views behind the sign-in."""

from typing import cast

from django.http import HttpRequest

from portal.projects.models import User


def person_of(request: HttpRequest) -> User:
    """The signed-in person; pages.page has seen to it that there is one."""
    return cast(User, request.user)
