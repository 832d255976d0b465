"""Who is where in the tree, with which role: read for the pages about people."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from portal.common.permissions import ROLE_RANK
from portal.projects.models import Membership, Project, Role, User
from portal.projects.selectors import ancestor_paths, memberships_visible, projects_visible


class PlaceRow(NamedTuple):
    """A project with its own people, and the reader's role in it (None: seen by a right over the whole site)."""

    project: Project
    depth: int
    leads: list[str]
    people: int
    own_role: Role | None


def places(*, user: User, archived: bool) -> list[PlaceRow]:
    """Every project that the person may see, parents before children, with the people who have a role right there."""
    projects = projects_visible(user=user)
    rows = sorted(projects if archived else projects.filter(archived_at=None), key=lambda each: each.path.split("/"))
    leads: dict[int, list[str]] = {}
    people: Counter[int] = Counter()
    held = memberships_visible(user=user).filter(user__is_active=True).order_by("user__username")
    for project_id, username, role in held.values_list("project_id", "user__username", "role"):
        people[project_id] += 1
        if role == Role.LEAD:
            leads.setdefault(project_id, []).append(username)
    own = dict(Membership.objects.filter(user_id=user.pk).values_list("project__path", "role"))
    shallowest = min((row.depth for row in rows), default=0)
    return [
        PlaceRow(row, row.depth - shallowest, leads.get(row.pk, []), people[row.pk], _own_role(user, row, own))
        for row in rows
    ]


def _own_role(user: User, project: Project, own: dict[str, str]) -> Role | None:
    if user.is_superuser:
        return Role.LEAD
    roles = [Role(own[path]) for path in ancestor_paths(project.path) if path in own]
    return max(roles, key=lambda role: ROLE_RANK[role], default=None)


def memberships_reaching(*, project: Project) -> list[Membership]:
    """Roles that hold in the project: its own first, then those inherited from above, the nearest first."""
    reaching = Membership.objects.filter(project__path__in=ancestor_paths(project.path))
    rows = reaching.select_related("user", "project").order_by("-project__depth", "user__username")
    return list(rows)


def people_reaching(*, paths: Iterable[str]) -> set[str]:
    """User names of everybody who has a role on one of these paths."""
    found = Membership.objects.filter(project__path__in=list(paths), user__is_active=True)
    return set(found.values_list("user__username", flat=True))


def access_changes(*, project: Project, parent: Project) -> tuple[list[str], list[str]]:
    """If the project hung below `parent`: who would lose sight of it, and who would gain it."""
    above = project.path.rpartition("/")[0]
    kept = people_reaching(paths=[project.path])
    before = people_reaching(paths=ancestor_paths(above)) if above else set()
    after = people_reaching(paths=ancestor_paths(parent.path))
    return sorted(before - after - kept), sorted(after - before - kept)


def names_in_words(names: Collection[str], *, most: int = 5) -> str:
    """`ada, ben and 12 more`."""
    shown = list(names)[:most]
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
