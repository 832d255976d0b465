"""Which names of projects in a run its reader sees: figures are everybody's, names only of who may see the project."""

import re
from collections.abc import Collection
from typing import Any

from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible
from portal.simulations.models import Run

HIDDEN = "hidden_projects"
"""In a report or a scenario: how many projects were left out because the reader may not see them."""

OWED = "owed_projects"
"""In a report that leaves some out: how many projects were owed something, those included."""


def names_hidden(*, run: Run, user: User) -> frozenset[str]:
    """Paths that the person may not see: of projects of this portal, as they are called now or were in the run.

    Names of a trace or a scenario that are no projects of this portal are everybody's.
    """
    if user.is_site_wide:
        return frozenset()
    seen = dict(projects_visible(user=user).values_list("pk", "path"))
    unseen = paths_unseen(user=user)
    then_unseen = {path for path, project_id in run.projects.items() if project_id not in seen}
    then_seen = {path for path, project_id in run.projects.items() if project_id in seen}
    return frozenset((unseen - then_seen) | then_unseen)


def paths_unseen(*, user: User) -> frozenset[str]:
    """Paths of projects that the person may not see, as they are called now."""
    seen = projects_visible(user=user).values("pk")
    return frozenset(Project.objects.exclude(pk__in=seen).values_list("path", flat=True))


def report_seen(report: dict[str, Any] | None, hidden: Collection[str]) -> dict[str, Any] | None:
    """The report without what names hidden projects."""
    if report is None or not hidden:
        return report
    shown = dict(report)
    for name in ("delivery", "by_project"):
        shown[name] = {path: value for path, value in report.get(name, {}).items() if path not in hidden}
    shown["days"] = [row for row in report.get("days", []) if row["project"] not in hidden]
    shown["others"] = [report_seen(other, hidden) for other in report.get("others", [])]
    shown["notes"] = [text_seen(note, hidden) for note in report.get("notes", [])]
    shown[OWED] = sum(ratio is not None for ratio in report.get("delivery", {}).values())
    shown[HIDDEN] = len(report.get("by_project", {})) - len(shown["by_project"])
    return shown


def scenario_seen(scenario: dict[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """The scenario without hidden projects."""
    projects = scenario.get("projects", [])
    shown = [line for line in projects if line.get("path") not in hidden]
    left_out = len({line.get("path") for line in projects}) - len({line.get("path") for line in shown})
    return {**scenario, "projects": shown, **({HIDDEN: left_out} if left_out else {})}


def text_seen(text: str, hidden: Collection[str]) -> str:
    """A sentence in which hidden projects have no name."""
    for path in hidden:
        if path in text:
            text = re.sub(rf"(?<![\w/-]){re.escape(path)}(?![\w/-])", "a project", text)
    return text
