"""Who sees which projects, and who may do what in them."""

from django.db.models import CharField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat

from portal.common.errors import Forbidden, Moved, NotFound
from portal.common.permissions import ACTION_WORDS, ROLE_RANK, role_covers
from portal.projects.models import FormerPath, Invitation, Membership, Project, Role, User

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
    return live if user.is_superuser else live.filter(_role_above(user, [Role.MEMBER, Role.LEAD]))


def projects_led(*, user: User) -> QuerySet[Project]:
    """Projects that the person leads, there or from above, archived ones among them."""
    return Project.objects.all() if user.is_superuser else Project.objects.filter(_role_above(user, [Role.LEAD]))


def _role_above(user: User, roles: list[Role]) -> Exists:
    above = (
        Membership.objects.filter(user_id=user.pk, role__in=roles)
        .alias(seen=ExpressionWrapper(OuterRef("path"), output_field=CharField()))
        .filter(Q(seen=F("project__path")) | Q(seen__startswith=Concat("project__path", Value("/"))))
    )
    return Exists(above)


def memberships_visible(*, user: User) -> QuerySet[Membership]:
    """Roles on projects that the person may see."""
    return Membership.objects.filter(project__in=projects_visible(user=user))


def invitations_visible(*, user: User) -> QuerySet[Invitation]:
    """Invitations to projects that the person leads."""
    return Invitation.objects.filter(project__in=projects_led(user=user))


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


def auditor_require(*, user: User) -> None:
    """The audit log speaks of everybody and everything: operators and administrators read it."""
    if not user.is_site_wide:
        raise Forbidden("The audit log is for operators and administrators.")


def project_by_path(*, user: User, path: str) -> Project:
    """The project, if the person may see it; else an error that names those that they may."""
    project = None if "\0" in path else projects_visible(user=user).filter(path=path).first()
    if project is None:
        raise project_not_found(user=user, path=path)
    return project


def project_allowing(*, user: User, action: str, path: str, held: bool = False) -> Project:
    """The project, if the person may do that in it; else the errors of `project_by_path` and `user_require`.

    `held`: until the transaction ends nobody archives it. Others may hold it so too.
    """
    project = None if "\0" in path else _project_held(path) if held else Project.objects.filter(path=path).first()
    if project is None:
        raise project_not_found(user=user, path=path)
    user_require(user=user, action=action, project=project)
    return project


def _project_held(path: str) -> Project | None:
    """Django has no word for this weakest of row locks, the one that a foreign key takes."""
    rows = Project.objects.raw("SELECT * FROM projects_project WHERE path = %s FOR KEY SHARE", [path])
    return next(iter(rows), None)


def project_not_found(*, user: User, path: str) -> NotFound:
    """The same error whether the project does not exist or may not be seen; one that moved says where it is now."""
    moved = project_moved(user=user, path=path)
    if moved is not None:
        sentence = f"{path} was renamed or moved: it is {moved.path} now. Use that name."
        return Moved(sentence, old=path, new=moved.path, attr="project")
    visible = list(
        projects_visible(user=user).filter(archived_at=None).values_list("path", flat=True)[: NAMES_IN_A_MESSAGE + 1]
    )
    shown = path.replace("\0", "\\0")[:200]
    return NotFound(f"There is no project {shown!r} that you may see. {names_hint(visible)}", attr="project")


def project_moved(*, user: User, path: str) -> Project | None:
    """The project that had this path last, if the person may see it and nothing stands at that path now."""
    if "\0" in path or Project.objects.filter(path=path).exists():
        return None
    former = FormerPath.objects.filter(path=path, project__in=projects_visible(user=user)).select_related("project")
    newest = former.first()
    return newest.project if newest else None


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
