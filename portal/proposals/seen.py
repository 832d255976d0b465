"""How much of a proposal a person sees: all of it who sees the level; who leads a project that asks sees the debate,
with the names of hidden projects blotted out, and the lines of the projects that they see."""

import re
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace

from portal.budgets.history import Recorded
from portal.budgets.selectors import PlannedEffect
from portal.projects.models import Project, User
from portal.projects.selectors import ancestor_paths, projects_visible
from portal.proposals.models import Comment, Proposal, ProposalLine
from portal.simulations.names import paths_unseen, text_seen

BLOTTED = "a project"


@dataclass(frozen=True)
class View:
    """What one person sees of one proposal. `words` are what hidden projects are called, `seen` the other paths."""

    is_whole: bool
    parent_path: str = ""
    hidden: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    seen_ids: frozenset[int] = frozenset()

    def sees(self, project_id: int) -> bool:
        """Whether the lines of that project are shown; the others are one sum."""
        return self.is_whole or project_id in self.seen_ids

    def text(self, text: str) -> str:
        """What somebody wrote, in which hidden projects have no name: neither those of today nor earlier ones."""
        if self.is_whole:
            return text
        below = rf"(?<![\w/-]){re.escape(self.parent_path)}(?:/[\w-]+)+"
        text = re.sub(below, lambda found: found.group() if found.group() in self.seen else BLOTTED, text)
        text = text_seen(text, self.hidden)
        for word in sorted(self.words, key=len, reverse=True):
            text = re.sub(rf"(?<![\w/-]){re.escape(word)}(?![\w/-])", BLOTTED, text, flags=re.IGNORECASE)
        return text

    def proposal(self, proposal: Proposal) -> Proposal:
        """The proposal to be shown, not to be saved."""
        if self.is_whole:
            return proposal
        shown = copy(proposal)
        for name in ("title", "reason", "decision_reason"):
            setattr(shown, name, self.text(getattr(proposal, name)))
        return shown

    def comment(self, comment: Comment) -> Comment:
        """The comment to be shown, not to be saved."""
        shown = copy(comment)
        shown.text = self.text(comment.text)
        return shown

    def recorded(self, recorded: Recorded) -> Recorded:
        """A change of the level with the moves of projects that are seen, to be shown, not to be saved."""
        if self.is_whole:
            return recorded
        change = copy(recorded.change)
        change.reason = self.text(change.reason)
        moves = tuple(move for move in recorded.moves if self.sees(move.project.pk))
        return replace(recorded, change=change, moves=moves)

    def planned(self, effect: PlannedEffect) -> PlannedEffect:
        """What a planned change sets back of projects that are seen."""
        return effect._replace(sets_back=tuple(each for each in effect.sets_back if self.sees(each.project.pk)))


WHOLE = View(is_whole=True)


def view_of(*, user: User, proposal: Proposal) -> View:
    """What this person sees of this proposal, which they may see."""
    return views_of(user=user, proposals=[proposal])[proposal.pk]


def views_of(*, user: User, proposals: Sequence[Proposal]) -> dict[int, View]:
    """The same of several, by the proposals' ids: one query where the person sees all their levels."""
    parents = {each.parent_id for each in proposals}
    levels = set(projects_visible(user=user).filter(pk__in=parents).values_list("pk", flat=True))
    below = [each for each in proposals if each.parent_id not in levels]
    views = {each.pk: WHOLE for each in proposals}
    if below:
        seen = dict(projects_visible(user=user).values_list("pk", "path"))
        unseen = paths_unseen(user=user)
        views |= {each.pk: _partial(each, seen, unseen) for each in below}
    return views


def _partial(proposal: Proposal, seen: dict[int, str], unseen: Collection[str]) -> View:
    parent = proposal.parent
    # The path of one's own project says what stands above it.
    known = {above for path in seen.values() for above in ancestor_paths(path)} | set(ancestor_paths(parent.path))
    lines = ProposalLine.objects.filter(proposal=proposal).values("project_id")
    level = Project.objects.filter(parent=parent) | Project.objects.filter(pk__in=lines)
    called = {word for names in level.exclude(pk__in=seen).values_list("slug", "name") for word in names}
    return View(
        is_whole=False,
        parent_path=parent.path,
        hidden=frozenset(set(unseen) - known),
        words=frozenset(word for word in called if word.strip()),
        seen=frozenset(seen.values()),
        seen_ids=frozenset(seen),
    )
