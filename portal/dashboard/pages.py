"""What every view of a page shares: signed in, one method each, its URL's range and cluster checked."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods
from django_htmx.middleware import HtmxDetails

from portal.dashboard.frame import frame_of
from portal.projects.models import User

View = Callable[..., HttpResponseBase]


class PageRequest(HttpRequest):
    """A request as a view under `page`, `form_page` or `action` gets it: somebody has signed in."""

    user: User
    htmx: HtmxDetails


def page(view: View) -> View:
    """A page that is read: GET or HEAD, by a person who signed in."""
    return _guarded(view, ["GET", "HEAD"])


def form_page(view: View) -> View:
    """A page with a form: GET shows it, POST sends it."""
    return _guarded(view, ["GET", "HEAD", "POST"])


def action(view: View) -> View:
    """A change: POST only."""
    return _guarded(view, ["POST"])


def _guarded(view: View, methods: list[str]) -> View:
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        frame_of(request).require()
        return view(request, *args, **kwargs)

    return require_http_methods(methods)(login_required(checked))
