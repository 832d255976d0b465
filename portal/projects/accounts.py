"""How people sign in: no self-service sign-up; people are invited or come through the organisation's OIDC."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedSignup(DefaultAccountAdapter):  # type: ignore[misc]
    """allauth's adapter with sign-up closed, and its errors in plain words."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": "User name and password do not belong together.",
        "too_many_login_attempts": "Too many failed attempts. Try again in a few minutes.",
        "account_inactive": "This account is closed. Ask an administrator.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
