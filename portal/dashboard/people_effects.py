"""What a change of the project tree would do, in words, before it is saved."""

from datetime import datetime

from portal.common.units import percent_words
from portal.projects.models import Project
from portal.projects.selectors import ancestor_paths
from portal.projects.selectors_people import access_changes, names_in_words, people_reaching
from portal.projects.tree import path_below, slug_clean, subtree_of
from portal.scheduling.project_tree import Held, budget_changes_planned, budgets_held, workloads_active
from portal.workloads.models import WorkloadState


def create_effects(*, parent: Project, slug: str) -> list[str]:
    """A new project below `parent`."""
    path = path_below(parent, slug_clean(slug) or "…")
    seen = people_reaching(paths=ancestor_paths(parent.path))
    words = [
        f"{path} is made, without a budget: work there runs unallocated until a lead of {parent.path} grants it one.",
        f"{count_words(len(seen), 'person', 'people')} with a role in {parent.path} or above"
        f" {'has' if len(seen) == 1 else 'have'} it there too: {names_in_words(sorted(seen))}."
        if seen
        else f"Nobody has a role in {parent.path} or above it yet.",
    ]
    if _is_taken(path):
        words.insert(0, f"There is a project {path} already: this would be refused.")
    return words


def rename_effects(*, project: Project, name: str, slug: str, description: str) -> list[str]:
    """Another name, path or description."""
    words = []
    if name and name != project.name:
        words.append(f"It is called {name} instead of {project.name}, on every page and in every report.")
    if description != project.description:
        words.append("Its description changes.")
    path = path_below(project.parent, slug_clean(slug)) if slug else project.path
    if path == project.path:
        return words or ["Nothing changes."]
    if _is_taken(path):
        return [*words, f"There is a project {path} already: this would be refused."]
    return [
        *words,
        *path_effects(project, path),
        "Budgets, balances, history and what runs there stay as they are.",
    ]


def _is_taken(path: str) -> bool:
    """What was typed is not checked yet: the database can't be asked for a NUL."""
    return "\0" not in path and Project.objects.filter(path=path).exists()


def path_effects(project: Project, path: str) -> list[str]:
    """What another path means to those who use the old one."""
    below = subtree_of(project).count() - 1
    also = f", and that of {count_words(below, 'project', 'projects')} below it" if below else ""
    return [
        f"Its path changes from {project.path} to {path}{also}.",
        "Pages under the old path lead to the new one. REST, the command line and scripts that name the old one are"
        " refused and told the new one.",
    ]


def move_effects(*, project: Project, parent: Project, at: datetime) -> list[str]:
    """The project below another parent."""
    words = path_effects(project, path_below(parent, project.slug))
    words += _budget_effects(project, at, f"{parent.path} grants it a new one, until then new work runs unallocated.")
    active = workloads_active(project=project)
    running, waiting = active.get(WorkloadState.RUNNING, 0), active.get(WorkloadState.PENDING, 0)
    if running or waiting:
        words.append(
            f"{running} running and {waiting} waiting workloads stay: what they use from then on is charged to"
            f" {parent.path} and above it, what they used before stays where it was charged."
        )
    lost, gained = access_changes(project=project, parent=parent)
    if lost:
        words.append(f"{names_in_words(lost)} no longer see it or act in it: their role was inherited from above.")
    if gained:
        words.append(f"{names_in_words(gained)} see it, and have in it the role that they have in {parent.path}.")
    return words


def archive_effects(*, project: Project, at: datetime) -> list[str]:
    """The project closed."""
    below = subtree_of(project).filter(archived_at=None).count() - 1
    who = f"{project.path} takes"
    if below > 0:
        who = f"{project.path} and {count_words(below, 'project', 'projects')} below it take"
    return [
        f"{who} no more submissions and can't be chosen any more; history, charges and people stay.",
        *_budget_effects(project, at, "if it is brought back, it has none until it is granted one."),
        "It can be brought back at any time, with what is archived along with it.",
    ]


def archive_obstacles(*, project: Project, at: datetime) -> list[str]:
    """Why it can't be archived now."""
    active = workloads_active(project=project)
    words = []
    if active:
        running, waiting = active.get(WorkloadState.RUNNING, 0), active.get(WorkloadState.PENDING, 0)
        words.append(f"{running} running and {waiting} waiting workloads are left: cancel them or let them end.")
    return words + plan_obstacles(project=project, at=at)


def plan_obstacles(*, project: Project, at: datetime) -> list[str]:
    """Planned changes of budgets that name the project."""
    return [
        f"A change of budgets on {change.cluster.name} that takes effect at {change.effective_at:%F %H:%M} UTC names"
        " it: withdraw it first."
        for change in budget_changes_planned(project=project, at=at)
    ]


def unarchive_effects(*, project: Project) -> list[str]:
    """The project open again."""
    along = subtree_of(project).filter(archived_at=project.archived_at).count() - 1
    also = f" and {count_words(along, 'project', 'projects')} archived along with it" if along else ""
    return [f"{project.path}{also} can be submitted to again, without a budget until it is granted one."]


def _budget_effects(project: Project, at: datetime, after: str) -> list[str]:
    held = budgets_held(project=project, at=at)
    if not held or project.parent is None:
        return []
    parts = ", ".join(_held_words(each) for each in held)
    return [f"Its budget, {parts}, goes back to {project.parent.path}; {after}"]


def _held_words(held: Held) -> str:
    return f"{percent_words(held.line.share_ppm)} on {held.cluster.name}"


def count_words(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
