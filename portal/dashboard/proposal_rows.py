"""What the pages of proposals show: today beside the draft, requests with their past, in words and units."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.db.models import Count

from portal.budgets.selectors import NO_BUDGET, Line, budgets_at, shares_of_cluster
from portal.clusters.models import Cluster
from portal.common.units import PPM
from portal.dashboard import budget_units
from portal.dashboard.project_tree import installed_gpus
from portal.projects.former import projects_as_below
from portal.projects.models import Project, User
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.seen import WHOLE, View, views_of
from portal.proposals.selectors import DraftRow, draft_rows


def parent_gpus_of(*, cluster: Cluster, parent: Project, at: datetime) -> Fraction:
    """GPUs of the cluster that the parent's share is, of the installed ones."""
    share = shares_of_cluster(cluster=cluster, at=at).get(parent.pk, Fraction(0))
    return share * installed_gpus(cluster=cluster)


@dataclass(frozen=True)
class SideRow:
    """One child (or what is not given out): today beside the draft, in every unit."""

    name: str
    path: str
    today: Line
    draft: Line
    parent_gpus: Fraction

    @property
    def moved(self) -> bool:
        return self.today != self.draft

    @property
    def today_percent(self) -> str:
        return budget_units.percent_text(self.today.share_ppm)

    @property
    def draft_percent(self) -> str:
        return budget_units.percent_text(self.draft.share_ppm)

    @property
    def today_gpus(self) -> str:
        return budget_units.gpus_text(self.today.share_ppm, self.parent_gpus)

    @property
    def draft_gpus(self) -> str:
        return budget_units.gpus_text(self.draft.share_ppm, self.parent_gpus)

    @property
    def today_hours(self) -> str:
        return _hours(self.today.share_ppm, self.parent_gpus)

    @property
    def draft_hours(self) -> str:
        return _hours(self.draft.share_ppm, self.parent_gpus)

    @property
    def moved_ppm(self) -> int:
        return self.draft.share_ppm - self.today.share_ppm

    @property
    def difference(self) -> str:
        """`+6.4`, `−12`, `0`: GPUs."""
        text = budget_units.decimal_text(budget_units.gpus_of_ppm(abs(self.moved_ppm), self.parent_gpus), places=2)
        if not self.moved_ppm:
            return "0"
        return f"{'+' if self.moved_ppm > 0 else '−'}{text}"

    @property
    def direction(self) -> str:
        return "arrow-up" if self.moved_ppm > 0 else "arrow-down" if self.moved_ppm < 0 else ""

    @property
    def effect(self) -> str:
        """`vision goes from 14 % to 11 %: 61 GPUs fewer`."""
        return budget_units.effect_words(self.name, self.today.share_ppm, self.draft.share_ppm, self.parent_gpus)

    @property
    def caps(self) -> str:
        """The burst cap, and what it was where it moves."""
        today, draft = (
            "none" if line.burst_gpus is None else f"{line.burst_gpus:,}" for line in (self.today, self.draft)
        )
        return draft if today == draft else f"{today} → {draft}"


def _hours(ppm: int, parent_gpus: Fraction) -> str:
    return f"{int(budget_units.gpus_of_ppm(ppm, parent_gpus) * budget_units.WEEK_HOURS):,}"


@dataclass(frozen=True)
class Sides:
    """A whole level today beside the draft."""

    rows: list[SideRow]
    rest: SideRow
    drafts: list[DraftRow]
    is_whole: bool = True

    @property
    def moves(self) -> list[SideRow]:
        """The rows that move, the largest first."""
        return sorted((row for row in self.rows if row.moved), key=lambda row: -abs(row.moved_ppm))

    @property
    def moved_gpus(self) -> str:
        """GPUs that change hands."""
        up = sum(max(row.moved_ppm, 0) for row in (*self.rows, self.rest))
        return budget_units.decimal_text(budget_units.gpus_of_ppm(up, self.rest.parent_gpus), places=2)

    @property
    def effect(self) -> str:
        """The finding of the page."""
        if not self.moves:
            return "no budget would change"
        more = len(self.moves) - 1
        return self.moves[0].effect + (f"; {more} more move" + ("s" if more == 1 else "") if more else "")

    @property
    def any_cap(self) -> bool:
        return any(line.burst_gpus is not None for row in self.rows for line in (row.today, row.draft))


def sides_of(*, proposal: Proposal, now: datetime, parent_gpus: Fraction, view: View = WHOLE) -> Sides:
    """A proposal beside today; of a decided one, beside what was in force then. What the view leaves out is one sum."""
    drafts = draft_rows(proposal=proposal, now=now)
    decided = proposal.decided_at is not None
    rows = [
        SideRow(row.project.name, row.project.path, row.today, row.draft, parent_gpus)
        for row in drafts
        if (row.listed or not decided) and view.sees(row.project.pk)
    ]
    today, draft = (
        PPM - sum(line.share_ppm for line in lines) for lines in ([r.today for r in rows], [r.draft for r in rows])
    )
    name = "Not given out" if view.is_whole else "Others, and what is not given out"
    rest = SideRow(name, "", Line(max(today, 0), None), Line(max(draft, 0), None), parent_gpus)
    return Sides(rows, rest, drafts, view.is_whole)


@dataclass(frozen=True)
class ListRow:
    """A proposal in the list, with what it would change most."""

    proposal: Proposal
    effect: str
    comments: int
    requests: int


def list_rows(*, proposals: Sequence[Proposal], user: User, now: datetime) -> list[ListRow]:
    """One query for lines, two for counts, one for what is seen, and one for each cluster among them."""
    views = views_of(user=user, proposals=proposals)
    ids = [each.pk for each in proposals]
    counted = Proposal.objects.filter(pk__in=ids).order_by()
    comments = dict(counted.annotate(n=Count("comments")).values_list("pk", "n"))
    requests = dict(counted.annotate(n=Count("requests")).values_list("pk", "n"))
    in_force = {cluster: budgets_at(cluster=cluster, at=now) for cluster in {each.cluster for each in proposals}}
    lines = {each.pk: each for each in Proposal.objects.filter(pk__in=ids).prefetch_related("lines__project")}
    places = [(line.project, each.parent) for each in proposals for line in lines[each.pk].lines.all()]
    named = projects_as_below(places=places)
    return [
        ListRow(
            views[each.pk].proposal(each),
            _largest_move(lines[each.pk], in_force[each.cluster], named, views[each.pk]),
            comments.get(each.pk, 0),
            requests.get(each.pk, 0),
        )
        for each in proposals
    ]


def _largest_move(proposal: Proposal, today: dict[int, Line], named: dict[tuple[int, int], Project], view: View) -> str:
    if proposal.decided_at is not None:
        return ""
    moves = [
        (abs(line.share_ppm - before), named[line.project_id, proposal.parent_id].name, before, line.share_ppm)
        for line in proposal.lines.all()
        if view.sees(line.project_id) and (before := today.get(line.project_id, NO_BUDGET).share_ppm) != line.share_ppm
    ]
    if not moves:
        return "no share moves"
    _, name, before, after = max(moves)
    more = f", {len(moves) - 1} more" if len(moves) > 1 else ""
    return f"{name} {budget_units.percent_text(before)} % → {budget_units.percent_text(after)} %{more}"


def lines_asked(
    *, children: Iterable[Project], today: dict[int, Line], requests: Sequence[GrantRequest], parent_gpus: Fraction
) -> dict[int, Line]:
    """Today's budgets, with those who ask at what they ask for: where a draft begins."""
    lines = {child.pk: today.get(child.pk, NO_BUDGET) for child in children}
    for request in requests:
        if request.project_id in lines and parent_gpus:
            ppm = min(int(Fraction(request.gpus) / parent_gpus * PPM), PPM)
            lines[request.project_id] = Line(ppm, lines[request.project_id].burst_gpus)
    return lines
