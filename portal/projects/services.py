"""Projects, people, roles and tokens: what changes them, and the rules of that."""

import secrets
from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_unicode_slug
from django.db import IntegrityError, transaction

from portal.common.errors import FieldError, Forbidden, Refused
from portal.common.services import audit_record
from portal.projects.authentication import token_digest
from portal.projects.models import ApiToken, Membership, Project, Role, User
from portal.projects.selectors import user_require

TOKEN_PREFIX = "gc_"  # noqa: S105 - the visible start of every token, no secret
TOKEN_PREFIX_SHOWN = 10
DEPTH_MAX = 15


@transaction.atomic
def project_create(
    *,
    parent: Project | None,
    slug: str,
    name: str,
    actor: User | None,
    now: datetime,
    description: str = "",
    is_demonstration: bool = False,
) -> Project:
    """Make a project below `parent` (a lead there may), or the root when there is none yet."""
    _project_allowed(parent, actor)
    _project_checked(parent, slug, name)
    path = slug if parent is None else f"{parent.path}/{slug}"
    if Project.objects.filter(path=path).exists():
        raise Refused(f"There is a project {path} already.", attr="slug", code="unique")
    try:
        with transaction.atomic():
            project = Project.objects.create(
                parent=parent,
                slug=slug,
                name=name.strip(),
                path=path,
                depth=0 if parent is None else parent.depth + 1,
                description=description,
                is_demonstration=is_demonstration,
                created_at=now,
            )
    except IntegrityError:
        raise Refused(f"There is a project {path} already.", attr="slug", code="unique") from None
    audit_record(
        actor=actor, action="project_create", target=project, before={}, after={"path": path, "name": name}, now=now
    )
    return project


def _project_allowed(parent: Project | None, actor: User | None) -> None:
    if parent is not None and actor is not None:
        user_require(user=actor, action="project_edit", project=parent)
    if parent is None and actor is not None and not actor.is_superuser:
        raise Forbidden("Only an administrator makes the root of the project tree.")
    if parent is None and Project.objects.filter(parent=None).exists():
        raise Refused("The project tree has its root already: name a parent.", attr="parent")


def _project_checked(parent: Project | None, slug: str, name: str) -> None:
    errors = []
    try:
        validate_unicode_slug(slug)
        if len(slug) > 60:
            raise ValidationError("too long")
    except ValidationError:
        errors.append(FieldError("slug", "invalid", "A slug is 1 to 60 letters, digits, - or _."))
    if not name.strip() or len(name) > 200 or "\0" in name:
        errors.append(FieldError("name", "invalid", "A name has 1 to 200 characters."))
    if parent is not None and parent.depth >= DEPTH_MAX:
        errors.append(FieldError("parent", "invalid", f"Projects may be nested {DEPTH_MAX} deep at most."))
    if errors:
        raise Refused.many(errors)


@transaction.atomic
def membership_set(
    *, user: User, project: Project, role: str | None, actor: User | None, now: datetime
) -> Membership | None:
    """Give a person a role on a project, change it, or (role None) take it away."""
    if actor is not None:
        user_require(user=actor, action="project_edit", project=project)
    if role is not None and role not in Role.values:
        raise Refused(f"A role is one of {', '.join(Role.values)}.", attr="role")
    held = Membership.objects.select_for_update().filter(user=user, project=project).first()
    before = held.role if held else None
    if before == role:
        return held
    if role is None:
        Membership.objects.filter(user=user, project=project).delete()
        held = None
    else:
        held, _ = Membership.objects.update_or_create(
            user=user, project=project, defaults={"role": role}, create_defaults={"role": role, "created_at": now}
        )
    audit_record(
        actor=actor,
        action="membership_set",
        target=project,
        before={"user": user.username, "role": before},
        after={"user": user.username, "role": role},
        now=now,
    )
    return held


@transaction.atomic
def user_create(
    *,
    username: str,
    password: str | None,
    actor: User | None,
    now: datetime,
    is_operator: bool = False,
    is_superuser: bool = False,
) -> User:
    """Add a person. Without a password nobody can sign in as them until one is set by a link."""
    if actor is not None and not actor.is_superuser:
        raise Forbidden("Only an administrator adds people.")
    user = User(
        username=username, is_operator=is_operator, is_superuser=is_superuser, is_staff=is_superuser, date_joined=now
    )
    _user_checked(user, password)
    if password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    user.save()
    rights = {"username": username, "is_operator": is_operator, "is_superuser": is_superuser}
    audit_record(actor=actor, action="user_create", target=user, before={}, after=rights, now=now)
    return user


def _user_checked(user: User, password: str | None) -> None:
    errors: list[FieldError] = []
    try:
        user.full_clean(exclude=["password"])
    except ValidationError as invalid:
        for attr, details in invalid.message_dict.items():
            errors.extend(FieldError(attr, "invalid", detail) for detail in details)
    errors.extend(_password_errors(user, password))
    if errors:
        raise Refused.many(errors)


def _password_errors(user: User, password: str | None) -> list[FieldError]:
    if password is None:
        return []
    try:
        validate_password(password, user)
    except ValidationError as invalid:
        return [FieldError("password", "invalid", detail) for detail in invalid.messages]
    return []


@transaction.atomic
def user_password_set(*, user: User, password: str, actor: User | None, now: datetime) -> None:
    """Set a password that Django's validators accept."""
    if errors := _password_errors(user, password):
        raise Refused.many(errors)
    user.set_password(password)
    user.save(update_fields=["password"])
    audit_record(actor=actor, action="user_password_set", target=user, before={}, after={}, now=now)


@transaction.atomic
def token_create(
    *, user: User, name: str, now: datetime, scope: str = "write", expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token; its secret is returned once and kept nowhere."""
    errors = []
    if not name.strip() or len(name) > 100 or "\0" in name:
        errors.append(FieldError("name", "invalid", "A token's name has 1 to 100 characters."))
    if scope not in {"read", "write"}:
        errors.append(FieldError("scope", "invalid", "A scope is read or write."))
    if expires_at is not None and expires_at <= now:
        errors.append(FieldError("expires_at", "invalid", "A token's expiry lies in the future."))
    if errors:
        raise Refused.many(errors)
    secret = TOKEN_PREFIX + secrets.token_hex(20)
    token = ApiToken.objects.create(
        user=user,
        name=name.strip(),
        prefix=secret[:TOKEN_PREFIX_SHOWN],
        digest=token_digest(secret),
        scope=scope,
        created_at=now,
        expires_at=expires_at,
    )
    shown = {"prefix": token.prefix, "scope": scope, "expires_at": expires_at.isoformat() if expires_at else None}
    audit_record(actor=user, action="token_create", target=token, before={}, after=shown, now=now)
    return token, secret


@transaction.atomic
def token_revoke(*, token: ApiToken, actor: User, now: datetime) -> None:
    """End a token, by its owner or an administrator; doing it again changes nothing."""
    if token.user_id != actor.pk and not actor.is_superuser:
        raise Forbidden("Only its owner or an administrator revokes a token.")
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        return
    token.revoked_at = now
    audit_record(
        actor=actor,
        action="token_revoke",
        target=token,
        before={"revoked_at": None},
        after={"revoked_at": now.isoformat()},
        now=now,
    )
