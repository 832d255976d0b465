"""The shape of the tree: one who changes it at a time, what a slug may be, and paths that follow.

Every change of parent, slug or archive takes `tree_lock` first and reads its rows after it: two people who move two
projects below each other at once can't make a cycle, and no path is computed from one that is about to change.
"""

import unicodedata
from collections.abc import Iterable
from datetime import datetime

from django.core.exceptions import ValidationError
from django.core.validators import validate_unicode_slug
from django.db import connection
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat, Substr

from portal.common.errors import Conflict, FieldError, Forbidden, Refused
from portal.projects.models import FormerPath, Project, User
from portal.projects.selectors import user_may, user_require

TREE_LOCK = 0x4743_0003
DEPTH_MAX = 15
SLUG_LENGTH_MAX = 60
NAME_LENGTH_MAX = 200
DESCRIPTION_LENGTH_MAX = 10_000
RESERVED_SLUGS = frozenset({"move", "archive", "unarchive"})
"""Words that follow a project's path in addresses of the API."""


def tree_lock() -> None:
    """Wait to be the only one who changes the tree, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [TREE_LOCK])


def project_fresh(project: Project) -> Project:
    """The project as it is now that the tree is locked, its row held until the transaction ends."""
    return Project.objects.select_for_update(no_key=True, of=["self"]).select_related("parent").get(pk=project.pk)


def version_require(project: Project, base_version: int | None) -> None:
    """A conflict when somebody changed the project since it was looked at; None: nobody said what they saw."""
    if base_version is not None and base_version != project.version:
        raise Conflict(
            f"{project.path} is at version {project.version} by now; yours was based on version {base_version}.",
            attr="base_version",
            current_version=project.version,
        )


def parent_lead_require(project: Project, actor: User | None) -> None:
    """Place, slug and archive of a project are decided by leads above it; of the root, by its own."""
    if actor is None:
        return
    user_require(user=actor, action="view", project=project)
    above = project.parent or project
    if not user_may(user=actor, action="project_edit", project=above):
        raise Forbidden(f"Moving, archiving and other paths in {above.path} are decided by its leads; you are none.")


def live_require(project: Project, *, attr: str = "") -> None:
    """What is archived is not changed: it comes back first."""
    if project.archived_at is not None:
        raise Refused(f"{project.path} is archived: bring it back first.", attr=attr, code="archived")


def slug_clean(slug: str) -> str:
    """Letters in one form: é is not two things."""
    return unicodedata.normalize("NFC", slug)


def slug_problems(slug: str) -> list[FieldError]:
    if slug in RESERVED_SLUGS:
        words = ", ".join(sorted(RESERVED_SLUGS))
        return [FieldError("slug", "invalid", f"These words are taken for addresses: {words}.")]
    try:
        validate_unicode_slug(slug)
    except ValidationError:
        slug = ""
    if not 1 <= len(slug) <= SLUG_LENGTH_MAX:
        return [FieldError("slug", "invalid", f"A slug is 1 to {SLUG_LENGTH_MAX} letters, digits, - or _.")]
    return []


def text_problems(name: str, description: str) -> list[FieldError]:
    errors = []
    if not name.strip() or len(name) > NAME_LENGTH_MAX or "\0" in name:
        errors.append(FieldError("name", "invalid", f"A name has 1 to {NAME_LENGTH_MAX} characters."))
    if len(description) > DESCRIPTION_LENGTH_MAX or "\0" in description:
        sentence = f"A description has at most {DESCRIPTION_LENGTH_MAX} characters."
        errors.append(FieldError("description", "invalid", sentence))
    return errors


def depth_problems(depth: int) -> list[FieldError]:
    if depth <= DEPTH_MAX:
        return []
    return [FieldError("parent", "invalid", f"Projects may be nested {DEPTH_MAX} deep at most.")]


def path_below(parent: Project | None, slug: str) -> str:
    return slug if parent is None else f"{parent.path}/{slug}"


def path_require_free(path: str) -> None:
    if Project.objects.filter(path=path).exists():
        raise Refused(f"There is a project {path} already.", attr="slug", code="unique")


def subtree_of(project: Project) -> QuerySet[Project]:
    """The project and everything below it."""
    return Project.objects.filter(Q(pk=project.pk) | Q(path__startswith=f"{project.path}/"))


def paths_follow(project: Project, *, parent: Project | None, slug: str, now: datetime) -> str:
    """Give the project its place and slug: paths of everything below follow, the old ones lead here. The new path."""
    old, path = project.path, path_below(parent, slug)
    rows = list(subtree_of(project).select_for_update(no_key=True).order_by("pk"))
    FormerPath.objects.bulk_create(FormerPath(path=row.path, project=row, left_at=now) for row in rows)
    deeper = (0 if parent is None else parent.depth + 1) - project.depth
    Project.objects.filter(pk__in=_ids(rows)).exclude(pk=project.pk).update(
        path=Concat(Value(path), Substr("path", len(old) + 1)), depth=F("depth") + deeper
    )
    project.parent, project.slug, project.path, project.depth = parent, slug, path, project.depth + deeper
    project.version += 1
    project.save(update_fields=["parent", "slug", "path", "depth", "version"])
    return path


def _ids(rows: Iterable[Project]) -> list[int]:
    return [row.pk for row in rows]
