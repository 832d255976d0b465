"""Who sees which projects, and who may do what in them."""

from django.db.models import CharField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat

from portal.common.errors import Forbidden, NotFound
from portal.common.permissions import ACTION_WORDS, ROLE_RANK, role_covers
from portal.projects.models import Membership, Project, Role, User

NAMES_IN_A_MESSAGE = 20


def projects_visible(*, user: User) -> QuerySet[Project]:
    """Projects that the person belongs to, and all below them; site-wide people see every project."""
    if user.is_site_wide:
        return Project.objects.all()
    above = (
        Membership.objects.filter(user_id=user.pk)
        .alias(seen=ExpressionWrapper(OuterRef("path"), output_field=CharField()))
        .filter(Q(seen=F("project__path")) | Q(seen__startswith=Concat("project__path", Value("/"))))
    )
    return Project.objects.filter(Exists(above))


def projects_submittable(*, user: User) -> QuerySet[Project]:
    """Projects that the person may submit to: member or lead there or above; archived ones left out."""
    live = Project.objects.filter(archived_at=None)
    if user.is_superuser:
        return live
    above = (
        Membership.objects.filter(user_id=user.pk, role__in=[Role.MEMBER, Role.LEAD])
        .alias(seen=ExpressionWrapper(OuterRef("path"), output_field=CharField()))
        .filter(Q(seen=F("project__path")) | Q(seen__startswith=Concat("project__path", Value("/"))))
    )
    return live.filter(Exists(above))


def ancestor_paths(path: str) -> list[str]:
    """The paths from the root down to `path` itself."""
    parts = path.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def ancestor_ids(*, project: Project) -> list[int]:
    """Ids from the root down to the project itself: what is charged for its workloads."""
    rows = Project.objects.filter(path__in=ancestor_paths(project.path)).order_by("depth")
    return list(rows.values_list("pk", flat=True))


def role_of(*, user: User, project: Project) -> Role | None:
    """The highest role on the project or above it. Administrators are leads, operators at least viewers."""
    if user.is_superuser:
        return Role.LEAD
    held = Membership.objects.filter(user_id=user.pk, project__path__in=ancestor_paths(project.path))
    roles = [Role(role) for role in held.values_list("role", flat=True)]
    if user.is_operator:
        roles.append(Role.VIEWER)
    return max(roles, key=lambda role: ROLE_RANK[role], default=None)


def user_may(*, user: User, action: str, project: Project) -> bool:
    """Whether the person's role covers the action: view, submit, cancel_any, budgets_edit or project_edit."""
    return role_covers(role_of(user=user, project=project), action)


def user_require(*, user: User, action: str, project: Project) -> None:
    """Not found (404) if the person may not see the project, forbidden (403) if they may not do that in it."""
    role = role_of(user=user, project=project)
    if not role_covers(role, "view"):
        raise project_not_found(user=user, path=project.path)
    if not role_covers(role, action):
        raise Forbidden(f"You are {role} of {project.path}; you may not {ACTION_WORDS[action]} it.")


def project_by_path(*, user: User, path: str) -> Project:
    """The project, if the person may see it; else an error that names those that they may."""
    project = None if "\0" in path else projects_visible(user=user).filter(path=path).first()
    if project is None:
        raise project_not_found(user=user, path=path)
    return project


def project_allowing(*, user: User, action: str, path: str) -> Project:
    """The project, if the person may do that in it; else the errors of `project_by_path` and `user_require`."""
    project = None if "\0" in path else Project.objects.filter(path=path).first()
    if project is None:
        raise project_not_found(user=user, path=path)
    user_require(user=user, action=action, project=project)
    return project


def project_not_found(*, user: User, path: str) -> NotFound:
    """The same error whether the project does not exist or may not be seen."""
    visible = list(
        projects_visible(user=user).filter(archived_at=None).values_list("path", flat=True)[: NAMES_IN_A_MESSAGE + 1]
    )
    shown = path.replace("\0", "\\0")[:200]
    return NotFound(f"There is no project {shown!r} that you may see. {names_hint(visible)}", attr="project")


def names_hint(names: list[str]) -> str:
    """`Yours: a, b.`, cut after twenty names."""
    if not names:
        return "You belong to no project: ask a lead to add you."
    more = ", …" if len(names) > NAMES_IN_A_MESSAGE else ""
    return f"You may see: {', '.join(names[:NAMES_IN_A_MESSAGE])}{more}."


def project_at(*, path: str) -> Project:
    """The project of a path, for the system itself; or an error that names those there are."""
    project = None if "\0" in path else Project.objects.filter(path=path).first()
    if project is None:
        paths = ", ".join(Project.objects.order_by("path").values_list("path", flat=True)[:20]) or "none yet"
        raise NotFound(f"There is no project {path[:200]!r}. The projects are: {paths}.", attr="project")
    return project


def user_named(*, username: str) -> User:
    """The person of a user name, or an error."""
    user = None if "\0" in username else User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is nobody called {username[:150]!r}; user_create makes people.", attr="username")
    return user
