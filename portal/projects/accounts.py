"""How people sign in: no self-service sign-up; people are invited or come through the organisation's OIDC."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedSignup(DefaultAccountAdapter):  # type: ignore[misc]
    """allauth's adapter with sign-up closed."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
