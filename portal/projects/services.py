"""Projects, people, roles and tokens: what changes them, and the rules of that."""

import secrets
from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from portal.common.errors import Conflict, FieldError, Forbidden, Refused
from portal.common.services import audit_record
from portal.projects.authentication import token_digest
from portal.projects.models import ApiToken, Membership, Project, Role, User
from portal.projects.selectors import user_may, user_require
from portal.projects.tree import (
    depth_problems,
    live_require,
    parent_lead_require,
    path_below,
    path_require_free,
    paths_follow,
    project_fresh,
    slug_clean,
    slug_problems,
    text_problems,
    tree_lock,
    version_require,
)

TOKEN_PREFIX = "gc_"  # noqa: S105 - the visible start of every token, no secret
TOKEN_PREFIX_SHOWN = 10


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
    tree_lock()
    parent = None if parent is None else project_fresh(parent)
    _project_allowed(parent, actor)
    slug = slug_clean(slug)
    depth = 0 if parent is None else parent.depth + 1
    if problems := slug_problems(slug) + text_problems(name, description) + depth_problems(depth):
        raise Refused.many(problems)
    path = path_below(parent, slug)
    path_require_free(path)
    project = Project.objects.create(
        parent=parent,
        slug=slug,
        name=name.strip(),
        path=path,
        depth=depth,
        description=description.strip(),
        is_demonstration=is_demonstration,
        created_at=now,
    )
    after = {"path": path, "name": project.name, **({"description": project.description} if description else {})}
    audit_record(actor=actor, action="project_create", target=project, before={}, after=after, now=now)
    return project


def _project_allowed(parent: Project | None, actor: User | None) -> None:
    if parent is not None and actor is not None:
        user_require(user=actor, action="project_edit", project=parent)
    if parent is not None:
        live_require(parent, attr="parent")
    if parent is None and actor is not None and not actor.is_superuser:
        raise Forbidden("Only an administrator makes the root of the project tree.")
    if parent is None and Project.objects.filter(parent=None).exists():
        raise Refused("The project tree has its root already: name a parent.", attr="parent")


@transaction.atomic
def project_create_once(
    *, parent: Project, slug: str, name: str, actor: User | None, now: datetime, description: str = ""
) -> tuple[Project, bool]:
    """`project_create` for askers who may ask twice: the very same project below the same parent is given again."""
    tree_lock()
    made = Project.objects.filter(parent=parent, slug=slug_clean(slug), archived_at=None).first()
    same = made is not None and (made.name, made.description) == (name.strip(), description.strip())
    if made is not None and same and (actor is None or user_may(user=actor, action="project_edit", project=parent)):
        return made, False
    return project_create(parent=parent, slug=slug, name=name, description=description, actor=actor, now=now), True


@transaction.atomic
def project_change(
    *,
    project: Project,
    actor: User | None,
    now: datetime,
    base_version: int | None = None,
    name: str | None = None,
    description: str | None = None,
    slug: str | None = None,
) -> Project:
    """Rename: name and description by its leads; the slug, and with it the path, by leads above. None: as it is.

    What is so already is no change and no conflict: asking again gives the same answer.
    """
    tree_lock()
    held = project_fresh(project)
    if actor is not None:
        user_require(user=actor, action="project_edit", project=held)
    wanted = {
        "name": held.name if name is None else name.strip(),
        "description": held.description if description is None else description.strip(),
        "slug": held.slug if slug is None else slug_clean(slug),
    }
    changed = [field for field, value in wanted.items() if value != getattr(held, field)]
    if not changed:
        return held
    version_require(held, base_version)
    live_require(held)
    problems = text_problems(wanted["name"], wanted["description"])
    if problems := problems + (slug_problems(wanted["slug"]) if "slug" in changed else []):
        raise Refused.many(problems)
    before = {field: getattr(held, field) for field in changed}
    if "slug" in changed:
        parent_lead_require(held, actor)
        path_require_free(path_below(held.parent, wanted["slug"]))
        before["path"] = held.path
        paths_follow(held, parent=held.parent, slug=wanted["slug"], now=now)
    else:
        held.version += 1
    held.name, held.description = wanted["name"], wanted["description"]
    held.save(update_fields=["name", "description", "version"])
    after = {field: getattr(held, field) for field in before}
    audit_record(actor=actor, action="project_change", target=held, before=before, after=after, now=now)
    return held


@transaction.atomic
def membership_set(
    *,
    user: User,
    project: Project,
    role: str | None,
    actor: User | None,
    now: datetime,
    base_version: int | None = None,
    reason: str = "",
) -> Membership | None:
    """Give a person a role on a project, change it, or (role None) take it away.

    `base_version` is the version of the membership that was looked at, 0 for none. The root keeps a lead.
    """
    if actor is not None:
        user_require(user=actor, action="project_edit", project=project)
    if role is not None and role not in Role.values:
        raise Refused(f"A role is one of {', '.join(Role.values)}.", attr="role")
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)  # one who changes its people at a time
    held = Membership.objects.select_for_update().filter(user=user, project=project).first()
    before = held.role if held else None
    if before == role:
        return held
    _membership_checked(user, project, held, role, base_version)
    if role is None:
        Membership.objects.filter(user=user, project=project).delete()
        held = None
    elif held is None:
        held = Membership.objects.create(user=user, project=project, role=role, created_at=now)
    else:
        held.role, held.version = role, held.version + 1
        held.save(update_fields=["role", "version"])
    audit_record(
        actor=actor,
        action="membership_set",
        target=project,
        before={"user": user.username, "role": before},
        after={"user": user.username, "role": role},
        now=now,
        reason=reason,
    )
    return held


@transaction.atomic
def membership_grant(
    *, username: str, project: Project, role: str, actor: User, now: datetime, base_version: int | None = None
) -> tuple[Membership, bool]:
    """`membership_set` for somebody by their user name; returns also whether they had no role there."""
    user_require(user=actor, action="project_edit", project=project)
    user = None if "\0" in username else User.objects.filter(username=username.strip()).first()
    if user is None:
        sentence = f"There is nobody called {username[:150]!r}. Invite people without an account by a link."
        raise Refused(sentence.replace("\0", "\\0"), attr="user", code="unknown_user")
    had = Membership.objects.filter(user=user, project=project).exists()
    membership_set(user=user, project=project, role=role, actor=actor, now=now, base_version=base_version)
    return Membership.objects.get(user=user, project=project), not had


def _membership_checked(
    user: User, project: Project, held: Membership | None, role: str | None, base_version: int | None
) -> None:
    version = held.version if held else 0
    if base_version is not None and base_version != version:
        now_is = f"{user.username} is {held.role}" if held else f"{user.username} has no role"
        raise Conflict(
            f"Somebody changed this: {now_is} of {project.path} by now.", attr="base_version", current_version=version
        )
    if role is not None and not user.is_active:
        raise Refused(f"The account of {user.username} is closed.", attr="user")
    if held is not None and held.role == Role.LEAD and project.parent_id is None:
        others = Membership.objects.filter(project=project, role=Role.LEAD, user__is_active=True).exclude(pk=held.pk)
        if not others.exists():
            sentence = f"{user.username} is the last lead of {project.path}: make somebody else one first."
            raise Refused(sentence, attr="role", code="last_lead")


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
