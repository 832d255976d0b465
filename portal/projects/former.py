"""What a project is called where it no longer stands: who reads of its old place learns nothing of the new one."""

from collections.abc import Iterable
from copy import copy

from portal.projects.models import FormerPath, Project

NAMELESS = "left"


def projects_as_below(*, places: Iterable[tuple[Project, Project]]) -> dict[tuple[int, int], Project]:
    """For each (project, parent), by their ids: the project, if it stands there; else a likeness of it.

    A likeness has the name and path that the project had below that parent, and is not for saving.
    """
    known = {(project.pk, parent.pk): (project, parent) for project, parent in places}
    left = {key: pair for key, pair in known.items() if pair[0].parent_id != key[1]}
    slugs = _slugs_there(left) if left else {}
    return {
        key: _likeness(project, parent, slugs.get(key, NAMELESS)) if key in left else project
        for key, (project, parent) in known.items()
    }


def _slugs_there(left: dict[tuple[int, int], tuple[Project, Project]]) -> dict[tuple[int, int], str]:
    """The last slug of each project below each parent, whatever the parent was called then."""
    parents = {parent.pk: {parent.path} for _, parent in left.values()}
    children = {project.pk for project, _ in left.values()}
    rows = FormerPath.objects.filter(project__in=children | parents.keys()).order_by("left_at", "pk")
    former = list(rows.values_list("project_id", "path"))
    for project_id, path in former:
        if project_id in parents:
            parents[project_id].add(path)
    slugs = {}
    for project_id, path in former:
        above, _, slug = path.rpartition("/")
        for _, parent_id in (key for key in left if key[0] == project_id and above in parents[key[1]]):
            slugs[project_id, parent_id] = slug
    return slugs


def _likeness(project: Project, parent: Project, slug: str) -> Project:
    likeness = copy(project)
    likeness.slug = likeness.name = slug
    likeness.path, likeness.description = f"{parent.path}/{slug}", ""
    return likeness
