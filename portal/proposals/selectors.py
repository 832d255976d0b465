"""Who sees which requests and proposals, what a proposal would change, and what changed under it since."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import CharField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat

from portal.budgets.history import Recorded, changes_recorded, planned_after
from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.selectors import (
    NO_BUDGET,
    Line,
    PlannedEffect,
    level_at,
    level_history,
    planned_effects,
    version_of_level,
)
from portal.budgets.services import percent_exact
from portal.clusters.models import Cluster
from portal.common.errors import NotFound
from portal.projects.former import projects_as_below
from portal.projects.models import Membership, Project, Role, User
from portal.projects.selectors import ancestor_paths, memberships_visible, projects_visible, role_of
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.transitions import DRAFT, LIVE_STATES

ALWAYS, ALONE, NEVER = "always", "alone", "never"


def projects_led(*, user: User) -> QuerySet[Project]:
    """Projects that the person leads, there or from above; administrators lead all."""
    if user.is_superuser:
        return Project.objects.all()
    above = (
        Membership.objects.filter(user_id=user.pk, role=Role.LEAD)
        .alias(seen=ExpressionWrapper(OuterRef("path"), output_field=CharField()))
        .filter(Q(seen=F("project__path")) | Q(seen__startswith=Concat("project__path", Value("/"))))
    )
    return Project.objects.filter(Exists(above))


def requests_visible(*, user: User) -> QuerySet[GrantRequest]:
    """Requests for projects that the person sees; a draft is its author's alone."""
    seen = GrantRequest.objects.select_related("project", "cluster", "author", "decided_by")
    seen = seen.filter(project__in=projects_visible(user=user))
    return seen if user.is_superuser else seen.filter(~Q(state=DRAFT) | Q(author=user))


def proposals_visible(*, user: User) -> QuerySet[Proposal]:
    """Proposals for levels whose parent the person sees, or that take up a request of a project that they lead;
    drafts are for those who lead the parent. How much of one they see: portal.proposals.seen."""
    seen = Proposal.objects.select_related("parent", "cluster", "author", "edited_by", "decided_by")
    if user.is_superuser:
        return seen
    led = projects_led(user=user)
    shown = Q(parent__in=projects_visible(user=user)) | Q(pk__in=_asking(led))
    return seen.filter(Q(parent__in=led) | ~Q(state=DRAFT) & shown)


def _asking(led: QuerySet[Project]) -> QuerySet[Any]:
    """Ids of proposals that take up a request of one of these projects."""
    return Proposal.requests.through.objects.filter(grantrequest__project__in=led).values("proposal_id")


def request_visible(*, user: User, request_id: int) -> GrantRequest:
    found = requests_visible(user=user).filter(pk=request_id).first()
    if found is None:
        raise NotFound(f"There is no request {request_id} that you may see.")
    return found


def proposal_visible(*, user: User, proposal_id: int) -> Proposal:
    found = proposals_visible(user=user).filter(pk=proposal_id).first()
    if found is None:
        raise NotFound(f"There is no proposal {proposal_id} that you may see.")
    return found


def may_comment(*, user: User, proposal: Proposal) -> bool:
    """Members and leads of the parent, leads of the projects that it divides its share among, and those who ask."""
    if role_of(user=user, project=proposal.parent) in (Role.MEMBER, Role.LEAD):
        return True
    led = projects_led(user=user)
    return led.filter(parent_id=proposal.parent_id).exists() or proposal.requests.filter(project__in=led).exists()


def changes_since(*, proposal: Proposal, now: datetime) -> list[Recorded]:
    """What changed on the level after the version that the proposal is based on, oldest first."""
    history = level_history(cluster=proposal.cluster, parent=proposal.parent)
    later = history.filter(version__gt=proposal.base_version).order_by("version")
    return changes_recorded(changes=later, at=now)


def change_words(recorded: Recorded, *, nothing: str = "no share changed") -> str:
    """`version 4 by ada: lab/nlp from 30 % to 40 % (trains more)`."""
    change = recorded.change
    by = change.author.username if change.author else "the system"
    moved = "; ".join(f"{move.project.path} {move_words(move.before, move.after)}" for move in recorded.moves)
    return f"version {change.version} by {by}: {moved or nothing} ({change.reason[:200]})"


def move_words(before: Line | None, after: Line | None) -> str:
    """`from 30 % to 40 %`, or how the cap moved where the share did not."""
    old, new = before or NO_BUDGET, after or NO_BUDGET
    if old.share_ppm != new.share_ppm:
        return f"from {percent_exact(old.share_ppm)} to {percent_exact(new.share_ppm)}"
    return "cap from {} to {}".format(*("none" if cap is None else f"{cap} GPUs" for cap in (old[1], new[1])))


def lines_as_of(*, proposal: Proposal, version: int, at: datetime) -> dict[int, Line]:
    """What was to be in force at that moment, as the changes up to that version had it."""
    known = BudgetChange.objects.filter(cluster=proposal.cluster, parent=proposal.parent, version__lte=version)
    withdrawn = known.exclude(withdraws=None).values("withdraws")
    standing = known.filter(withdraws=None, effective_at__lte=at).exclude(pk__in=withdrawn)
    change = standing.order_by("-effective_at", "-version").first()
    rows = BudgetLine.objects.filter(change=change) if change else BudgetLine.objects.none()
    return {row[0]: Line(*row[1:]) for row in rows.values_list("project_id", "share_ppm", "burst_gpus")}


@dataclass(frozen=True)
class DraftRow:
    """One child: its budget as the proposal was based on, as it is now, as it is to be when the draft takes
    effect, and as the draft would have it."""

    project: Project
    base: Line
    today: Line
    newest: Line
    draft: Line
    listed: bool

    @property
    def merged(self) -> Line:
        """Theirs where the draft left the base alone, else the draft's."""
        return self.newest if self.draft == self.base else self.draft

    @property
    def clash(self) -> bool:
        """Whether both moved it, to different ends."""
        return self.draft != self.base and self.newest not in (self.base, self.draft)


def lines_kept(*, proposal: Proposal) -> list[tuple[Project, int, int | None]]:
    """What the proposal says of each child; one that has left the level is named as it was called there."""
    lines = list(proposal.lines.select_related("project"))
    named = projects_as_below(places=[(line.project, proposal.parent) for line in lines])
    return [(named[line.project_id, proposal.parent_id], line.share_ppm, line.burst_gpus) for line in lines]


def draft_rows(*, proposal: Proposal, now: datetime) -> list[DraftRow]:
    """Every child of the level today and in the draft; a child made since stands with what it has.

    Today is the day of the decision, before it, where there was one.
    """
    moment = max(proposal.effective_at or now, now)
    base = lines_as_of(proposal=proposal, version=proposal.base_version, at=moment)
    newest = level_at(cluster=proposal.cluster, parent=proposal.parent, at=moment).lines
    today = _today(proposal, now)
    kept = lines_kept(proposal=proposal)
    lines = {project.pk: Line(share_ppm, burst_gpus) for project, share_ppm, burst_gpus in kept}
    children = {child.pk: child for child in Project.objects.filter(parent_id=proposal.parent_id, archived_at=None)}
    children |= {project.pk: project for project, _, _ in kept}
    return [
        DraftRow(
            project=child,
            base=base.get(pk, NO_BUDGET),
            today=today.get(pk, NO_BUDGET),
            newest=newest.get(pk, NO_BUDGET),
            draft=lines.get(pk, newest.get(pk, NO_BUDGET)),
            listed=pk in lines,
        )
        for pk, child in sorted(children.items(), key=lambda item: item[1].path)
    ]


def _today(proposal: Proposal, now: datetime) -> dict[int, Line]:
    """What is in force now; once decided, what was in force then, without what the decision wrote."""
    if proposal.decided_at is None:
        return level_at(cluster=proposal.cluster, parent=proposal.parent, at=now).lines
    if proposal.change is not None:
        version = proposal.change.version - 1
    else:
        made = BudgetChange.objects.filter(cluster=proposal.cluster, parent=proposal.parent)
        version = made.filter(created_at__lte=proposal.decided_at).count()
    return lines_as_of(proposal=proposal, version=version, at=proposal.decided_at)


def planned_of(*, proposal: Proposal, now: datetime) -> list[PlannedEffect]:
    """What changes planned ahead would set back of the draft; of an approved proposal, of what it wrote."""
    if proposal.change is not None:
        return [
            effect
            for recorded in changes_recorded(changes=[proposal.change], at=now)
            for effect in planned_after(recorded=recorded, at=now)
        ]
    if proposal.decided_at is not None:
        return []
    lines = {line.project_id: Line(line.share_ppm, line.burst_gpus) for line in proposal.lines.all()}
    moment = max(proposal.effective_at or now, now)
    return planned_effects(cluster=proposal.cluster, parent=proposal.parent, lines=lines, effective_at=moment, now=now)


def current_version(*, proposal: Proposal) -> int:
    """The newest version of the proposal's level."""
    return version_of_level(cluster=proposal.cluster, parent=proposal.parent)


def competing(*, cluster: Cluster, parent: Project, besides: Proposal | None = None) -> QuerySet[Proposal]:
    """Proposals for the same level that are under debate."""
    rivals = Proposal.objects.filter(cluster=cluster, parent=parent, state__in=LIVE_STATES)
    return rivals if besides is None else rivals.exclude(pk=besides.pk)


def proposals_touching(*, user: User, cluster: Cluster, parent: Project) -> list[Proposal]:
    """Proposals under debate for a level, as far as the person sees them."""
    seen = proposals_visible(user=user).filter(cluster=cluster, parent=parent, state__in=LIVE_STATES)
    return list(seen.order_by("pk"))


def owners_of(*, proposal: Proposal) -> set[int]:
    """Whose own it is: who wrote it, who set its lines last, and who asked for what it takes up."""
    asked = proposal.requests.values_list("author_id", flat=True)
    return {proposal.author_id, proposal.edited_by_id, *asked}


def managers_of(*, parent: Project) -> QuerySet[User]:
    """People who may decide on the parent's level: its leads, there or above, and administrators."""
    leads = Membership.objects.filter(role=Role.LEAD, project__path__in=ancestor_paths(parent.path))
    people = User.objects.filter(is_active=True)
    return people.filter(Q(is_superuser=True) | Q(pk__in=leads.values("user_id")))


def own_refusal(*, user: User, proposal: Proposal) -> str:
    """Why this person may not approve it as their own, in words; nothing if they may."""
    owners = owners_of(proposal=proposal)
    policy = settings.OWN_PROPOSALS
    if user.pk not in owners or policy == ALWAYS:
        return ""
    if policy == ALONE and not managers_of(parent=proposal.parent).exclude(pk__in=owners).exists():
        return ""
    whose = "wrote it" if user.pk in (proposal.author_id, proposal.edited_by_id) else "asked for what it grants"
    return f"You {whose}: {_others_words(user, proposal, owners)}"


def _others_words(user: User, proposal: Proposal, owners: set[int]) -> str:
    """Who may approve it instead, by name: leads whose roles the person sees, else administrators."""
    others = managers_of(parent=proposal.parent).exclude(pk__in=owners).order_by("username")
    seen = memberships_visible(user=user).filter(role=Role.LEAD, project__path__in=ancestor_paths(proposal.parent.path))
    leads = list(others.filter(pk__in=seen.values("user_id")).values_list("username", flat=True))
    if leads:
        return f"somebody else who leads {proposal.parent.path} approves it ({names_words(leads)})."
    administrators = list(others.filter(is_superuser=True).values_list("username", flat=True))
    if administrators:
        return f"an administrator approves it ({names_words(administrators)})."
    return f"make somebody else a lead of {proposal.parent.path}, who then approves it."


def names_words(names: Sequence[str], *, most: int = 3) -> str:
    """`ada`, `ada or max`, `ada, ben, max or 4 others`."""
    more = len(names) - most
    shown = list(names[:most]) + ([f"{more} other{'s' if more > 1 else ''}"] if more > 0 else [])
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
