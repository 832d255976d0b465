"""One's own account: roles, API tokens. A token's secret is shown once, in the answer that made it."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from portal.common.errors import NotFound, Refused
from portal.dashboard.forms import TokenForm, errors_into
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import PageRequest, action, form_page
from portal.projects.models import ApiToken, Membership
from portal.projects.services import token_create, token_revoke


@form_page
def account(request: PageRequest) -> HttpResponse:
    """Roles and tokens; POST makes a token."""
    form = TokenForm(request.POST or None)
    secret = None
    if request.method == "POST" and form.is_valid():
        secret = _token_made(request, form)
        if secret:
            form = TokenForm()
    context = {"form": form, "secret": secret, **_holdings(request)}
    response = render(request, "dashboard/account.html", context, status=400 if form.errors else 200)
    response["Cache-Control"] = "no-store"
    return response


def _token_made(request: PageRequest, form: TokenForm) -> str | None:
    now = frame_of(request).now
    try:
        _, secret = token_create(
            user=request.user,
            name=form.cleaned_data["name"],
            scope=form.cleaned_data["scope"],
            expires_at=form.expires_at(now),
            now=now,
        )
    except Refused as refused:
        errors_into(form, refused)
        return None
    return secret


def _holdings(request: PageRequest) -> dict[str, Any]:
    tokens = ApiToken.objects.filter(user=request.user, revoked_at=None).order_by("-created_at", "-pk")
    memberships = Membership.objects.filter(user=request.user).select_related("project").order_by("project__path")
    return {"tokens": list(tokens), "memberships": list(memberships), "now": frame_of(request).now}


@action
def token_end(request: PageRequest, token_id: int) -> HttpResponse:
    """Revoke one of one's own tokens."""
    token = ApiToken.objects.filter(pk=token_id, user=request.user).first()
    if token is None:
        raise NotFound("You have no such token.")
    token_revoke(token=token, actor=request.user, now=frame_of(request).now)
    messages.success(request, f"Token {token.name} is revoked: what uses it is refused from now on.")
    return redirect("dashboard:account")
