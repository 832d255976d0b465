"""What people are to be told in a digest: requests and proposals that moved, and budgets that end soon. Read-only."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import QuerySet

from portal.budgets.history import ChangeState, changes_recorded
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import changes_standing
from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.selectors import managers_of
from portal.proposals.transitions import (
    APPROVED,
    DECLINED,
    GRANTED,
    OPEN,
    REJECTED,
    STALE,
    SUBMITTED,
    TAKEN_UP,
)

TOLD_FOR = timedelta(days=7)
ENDS_WITHIN = timedelta(days=7)
ASKED, OPENED, DECIDED, ENDING = "Requests", "Proposals to debate", "Decisions", "Budgets that end within a week"
SECTIONS = (ENDING, ASKED, OPENED, DECIDED)

People = Callable[[Project], list[User]]


@dataclass(frozen=True)
class Item:
    """One thing to tell one person; `key` is the same each time it is found."""

    person: User
    key: str
    section: str
    words: str
    address: str


def digest_items(*, now: datetime) -> Iterator[Item]:
    """Everything of the last week, and what ends in the next: who is told what. Whoever did it isn't told of it."""

    @cache
    def managers(project: Project) -> list[User]:
        return list(managers_of(parent=project))

    yield from _requests_submitted(now, managers)
    yield from _requests_decided(now)
    yield from _proposals_opened(now, managers)
    yield from _proposals_decided(now, managers)
    yield from _grants_ending(now, managers)
    yield from _budgets_ending(now, managers)


def _requests_submitted(now: datetime, managers: People) -> Iterator[Item]:
    rows = _requests().filter(state__in=[SUBMITTED, TAKEN_UP], submitted_at__gt=now - TOLD_FOR)
    for request in rows:
        words = f"{request.author.username} asks for {request.gpus} GPUs for {request.project.path}: {request.title}"
        parent = request.project.parent
        for person in managers(parent) if parent else ():
            if person.pk != request.author_id:
                yield Item(person, f"request:{request.pk}:submitted", ASKED, words, _of_request(request))


def _requests_decided(now: datetime) -> Iterator[Item]:
    rows = _requests().filter(state__in=[GRANTED, DECLINED], decided_at__gt=now - TOLD_FOR)
    for request in rows:
        if request.decided_by_id != request.author_id:
            words = f"Your request was {request.state}: {request.title}. {request.decision_reason}"
            yield Item(request.author, f"request:{request.pk}:decided", DECIDED, words, _of_request(request))


def _proposals_opened(now: datetime, managers: People) -> Iterator[Item]:
    for proposal in _proposals().filter(state__in=[OPEN, STALE], opened_at__gt=now - TOLD_FOR):
        opened = f"{proposal.opened_at:%Y%m%dT%H%M%S}"
        words = f"{proposal.author.username} proposes for {proposal.parent.path}: {proposal.title}"
        for person in _concerned(proposal, managers):
            if person.pk != proposal.author_id:
                key = f"proposal:{proposal.pk}:opened:{opened}"
                yield Item(person, key, OPENED, words, _of_proposal(proposal))


def _proposals_decided(now: datetime, managers: People) -> Iterator[Item]:
    for proposal in _proposals().filter(state__in=[APPROVED, REJECTED], decided_at__gt=now - TOLD_FOR):
        by = proposal.decided_by.username if proposal.decided_by else "the system"
        words = f"{by} {proposal.state} “{proposal.title}” for {proposal.parent.path}. {proposal.decision_reason}"
        for person in _concerned(proposal, managers):
            if person.pk != proposal.decided_by_id:
                yield Item(person, f"proposal:{proposal.pk}:decided", DECIDED, words, _of_proposal(proposal))


def _concerned(proposal: Proposal, managers: People) -> list[User]:
    """Its managers and author, and those who asked for what it takes up, if they see the level."""
    asked = [request.author for request in proposal.requests.all()]
    outside = {
        person.pk: person
        for person in (*asked, proposal.author)
        if projects_visible(user=person).filter(pk=proposal.parent_id).exists()
    }
    return list({**outside, **{person.pk: person for person in managers(proposal.parent)}}.values())


def _grants_ending(now: datetime, managers: People) -> Iterator[Item]:
    rows = _requests().filter(state=GRANTED, until_at__gt=now, until_at__lte=now + ENDS_WITHIN)
    for request in rows:
        words = f"The grant of {request.gpus} GPUs to {request.project.path} ends {_when(request.until_at)}"
        key = f"request:{request.pk}:ends:{request.until_at:%Y%m%dT%H%M%S}"
        for person in managers(request.project):
            yield Item(person, key, ENDING, words, _of_request(request))


def _budgets_ending(now: datetime, managers: People) -> Iterator[Item]:
    ahead = changes_standing().filter(effective_at__gt=now, effective_at__lte=now + ENDS_WITHIN)
    changes: Iterable[BudgetChange] = ahead.select_related("cluster", "parent", "author", "withdraws")
    for recorded in changes_recorded(changes=changes, at=now):
        if recorded.state != ChangeState.PLANNED:
            continue
        for move in recorded.moves:
            if move.before and move.before.share_ppm and not (move.after and move.after.share_ppm):
                change = recorded.change
                words = f"The budget of {move.project.path} on {change.cluster.name} ends {_when(change.effective_at)}"
                address = f"/budgets/{change.parent.path}/?cluster={change.cluster.name}"
                for person in managers(move.project):
                    yield Item(person, f"change:{change.pk}:{move.project.pk}:ends", ENDING, words, address)


def _requests() -> QuerySet[GrantRequest]:
    return GrantRequest.objects.select_related("project__parent", "author", "cluster").order_by("pk")


def _proposals() -> QuerySet[Proposal]:
    rows = Proposal.objects.select_related("parent", "author", "decided_by").order_by("pk")
    return rows.prefetch_related("requests__author")


def _of_request(request: GrantRequest) -> str:
    return f"/proposals/requests/{request.pk}/"


def _of_proposal(proposal: Proposal) -> str:
    return f"/proposals/{proposal.pk}/"


def _when(moment: datetime) -> str:
    return f"{moment.astimezone(ZoneInfo(settings.SITE_ZONE)):%a %-d %b %Y %H:%M} ({settings.SITE_ZONE})"
