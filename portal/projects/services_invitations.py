"""Invitations: a link, shown once, with which somebody makes an account of their own and gets the role."""

import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from portal.common.errors import FieldError, Forbidden, NotFound, Refused
from portal.common.permissions import ROLE_RANK
from portal.common.services import audit_record
from portal.projects.authentication import token_digest
from portal.projects.models import Invitation, Membership, Project, Role, User
from portal.projects.selectors import user_may, user_require
from portal.projects.services import membership_set, user_create
from portal.projects.tree import live_require

VALID_FOR = timedelta(days=7)
OPEN_MAX = 200
LABEL_LENGTH_MAX = 200
SECRET_LENGTH_MAX = 100


def invitations_open(*, project: Project, now: datetime) -> QuerySet[Invitation]:
    """Links to this project that still work, newest first."""
    return Invitation.objects.filter(project=project, accepted_at=None, revoked_at=None, expires_at__gt=now)


@transaction.atomic
def invitation_create(
    *, project: Project, role: str, label: str, actor: User | None, now: datetime
) -> tuple[Invitation, str]:
    """Invite somebody by a link that works once and for a week; its secret is returned once and kept nowhere."""
    if actor is not None:
        user_require(user=actor, action="project_edit", project=project)
    live_require(project, attr="project")
    errors = []
    if role not in Role.values:
        errors.append(FieldError("role", "invalid", f"A role is one of {', '.join(Role.values)}."))
    if not label.strip() or len(label) > LABEL_LENGTH_MAX or "\0" in label:
        sentence = f"Say in 1 to {LABEL_LENGTH_MAX} characters for whom it is."
        errors.append(FieldError("label", "invalid", sentence))
    if errors:
        raise Refused.many(errors)
    if invitations_open(project=project, now=now).count() >= OPEN_MAX:
        raise Refused(f"{project.path} has {OPEN_MAX} open invitations: withdraw some first.", code="too_many")
    secret = secrets.token_urlsafe(24)
    invitation = Invitation.objects.create(
        project=project,
        role=role,
        label=label.strip(),
        digest=token_digest(secret),
        invited_by=actor,
        created_at=now,
        expires_at=now + VALID_FOR,
    )
    after = {"for": invitation.label, "role": role, "project": project.path, "expires_at": _iso(invitation.expires_at)}
    audit_record(actor=actor, action="invitation_create", target=invitation, before={}, after=after, now=now)
    return invitation, secret


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


@transaction.atomic
def invitation_revoke(*, invitation: Invitation, actor: User | None, now: datetime) -> Invitation:
    """Withdraw a link; doing it again, or after it was used, changes nothing."""
    if actor is not None:
        user_require(user=actor, action="project_edit", project=invitation.project)
    held = Invitation.objects.select_for_update().get(pk=invitation.pk)
    if held.accepted_at is not None or held.revoked_at is not None:
        return held
    held.revoked_at = now
    held.save(update_fields=["revoked_at"])
    before, after = {"revoked_at": None}, {"revoked_at": _iso(now)}
    audit_record(actor=actor, action="invitation_revoke", target=held, before=before, after=after, now=now)
    return held


def invitation_of_secret(*, secret: str, now: datetime) -> Invitation:
    """The invitation that a link stands for, or in words why it no longer works."""
    invitation = None
    if "\0" not in secret and len(secret) <= SECRET_LENGTH_MAX:
        found = Invitation.objects.filter(digest=token_digest(secret)).select_related("project", "invited_by")
        invitation = found.first()
    if invitation is None:
        raise NotFound("This is no invitation. Copy the whole link, or ask for a new one.")
    _invitation_works(invitation, now)
    return invitation


def _invitation_works(invitation: Invitation, now: datetime) -> None:
    problem = ""
    if invitation.accepted_at is not None:
        problem = "This invitation was used: it works once. Sign in with the account that it made."
    elif invitation.revoked_at is not None:
        problem = "This invitation was withdrawn. Ask for a new one."
    elif invitation.expires_at <= now:
        problem = f"This invitation expired at {invitation.expires_at:%F %H:%M} UTC. Ask for a new one."
    elif invitation.project.archived_at is not None:
        problem = f"{invitation.project.path} is archived by now."
    elif not _inviter_may(invitation):
        problem = "Who sent this invitation may no longer invite people. Ask another lead for one."
    if problem:
        raise NotFound(problem, code="invitation_over")


def _inviter_may(invitation: Invitation) -> bool:
    inviter = invitation.invited_by
    if inviter is None:
        return True
    return inviter.is_active and user_may(user=inviter, action="project_edit", project=invitation.project)


@transaction.atomic
def invitation_accept(*, secret: str, username: str, password: str, now: datetime) -> User:
    """Make an account with the link, once, and give it the role."""
    invitation = _invitation_held(secret, now)
    user = user_create(username=username, password=password, actor=None, now=now)
    _invitation_used(invitation, user, now)
    return user


@transaction.atomic
def invitation_take(*, secret: str, user: User, now: datetime) -> Invitation:
    """Use the link with an account that is there already; a role that reaches further is kept."""
    if not user.is_active:
        raise Forbidden("This account is closed.")
    invitation = _invitation_held(secret, now)
    _invitation_used(invitation, user, now)
    return invitation


def _invitation_held(secret: str, now: datetime) -> Invitation:
    invitation = invitation_of_secret(secret=secret, now=now)
    held = Invitation.objects.select_for_update(of=["self"]).select_related("project", "invited_by")
    fresh = held.get(pk=invitation.pk)
    _invitation_works(fresh, now)
    return fresh


def _invitation_used(invitation: Invitation, user: User, now: datetime) -> None:
    project, role = invitation.project, invitation.role
    had = Membership.objects.filter(user=user, project=project).values_list("role", flat=True).first()
    if had is None or ROLE_RANK[had] < ROLE_RANK[role]:
        reason = f"Invited as {invitation.label}."
        membership_set(user=user, project=project, role=role, actor=invitation.invited_by, now=now, reason=reason)
    invitation.accepted_at, invitation.accepted_by = now, user
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    after = {"accepted_at": _iso(now), "user": user.username}
    before = {"accepted_at": None, "user": None}
    audit_record(actor=user, action="invitation_accept", target=invitation, before=before, after=after, now=now)
