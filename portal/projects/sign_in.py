"""The form with which people sign in."""

from typing import Any

from allauth.account.forms import LoginForm


class SignInForm(LoginForm):  # type: ignore[misc]
    """allauth's form with our words: labels say what goes where, so nothing repeats them inside the fields."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        words = {"login": "User name", "password": "Password", "remember": "Stay signed in on this device"}
        for name, label in words.items():
            if name in self.fields:
                self.fields[name].label = label
                self.fields[name].widget.attrs.pop("placeholder", None)
