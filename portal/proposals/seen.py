"""How much of a proposal a person sees: all of it who sees the level; who leads a project that asks sees the debate,
with the names of hidden projects blotted out, and the lines of the projects that they see."""

import re
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace

from django.db.models import Q

from portal.budgets.history import Recorded
from portal.budgets.selectors import PlannedEffect
from portal.projects.models import Project, User
from portal.projects.selectors import ancestor_paths, projects_visible
from portal.proposals.models import Comment, GrantRequest, Proposal, ProposalLine
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
    below = _below(user, [each.parent_id for each in proposals])
    views = {each.pk: WHOLE for each in proposals}
    for each in proposals:
        if each.parent_id in below:
            listed = ProposalLine.objects.filter(proposal=each).values_list("project_id", flat=True)
            views[each.pk] = _partial(user, each.parent_id, each.parent.path, listed)
    return views


def requests_seen(*, user: User, requests: Sequence[GrantRequest]) -> list[GrantRequest]:
    """Requests to be shown, not to be saved: why a manager decided so, without names that the person does not see."""
    decided = [each.project.parent_id for each in requests if each.decision_reason and each.project.parent_id]
    below = _below(user, decided) if decided else set()
    return [_request_seen(user, each) if each.project.parent_id in below else each for each in requests]


def _request_seen(user: User, request: GrantRequest) -> GrantRequest:
    project = request.project
    view = _partial(user, project.parent_id or 0, project.path.rpartition("/")[0], [])
    shown = copy(request)
    shown.decision_reason = view.text(request.decision_reason)
    return shown


def _below(user: User, parent_ids: Collection[int]) -> set[int]:
    """Those of the levels' parents that the person does not see."""
    seen = projects_visible(user=user).filter(pk__in=parent_ids).values_list("pk", flat=True)
    return set(parent_ids) - set(seen)


def _partial(user: User, parent_id: int, parent_path: str, listed: Collection[int]) -> View:
    seen = dict(projects_visible(user=user).values_list("pk", "path"))
    # The path of one's own project says what stands above it.
    known = {above for path in (*seen.values(), parent_path) for above in ancestor_paths(path)}
    level = Project.objects.filter(Q(parent_id=parent_id) | Q(pk__in=listed)).exclude(pk__in=seen)
    called = {word for names in level.values_list("slug", "name") for word in names}
    return View(
        is_whole=False,
        parent_path=parent_path,
        hidden=frozenset(set(paths_unseen(user=user)) - known),
        words=frozenset(word for word in called if word.strip()),
        seen=frozenset(seen.values()),
        seen_ids=frozenset(seen),
    )
