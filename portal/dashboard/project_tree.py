"""The project tree of a cluster with budgets and balances, as the budgets and projects pages show it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

from django.db.models import Q, Sum

from portal.budgets.selectors import Line, shares_at
from portal.clusters.models import Cluster, Host
from portal.common.units import PPM, percent_words
from portal.dashboard import budget_units
from portal.dashboard.chart_words import UNKNOWN
from portal.projects.models import Membership, Project, Role, User
from portal.projects.selectors import projects_visible
from portal.scheduling.balance_readings import balance_words, balances_at
from portal.scheduling.models import Balance

BAR_WIDTH = 100


@dataclass(frozen=True)
class Standing:
    """A project's quota, usage and balance at a pass; none yet, or no budget: said in words, never a number."""

    quota_gpu_seconds: int = 0
    usage_gpu_seconds: int = 0
    at: datetime | None = None

    @property
    def balance_ppm(self) -> int | None:
        quota = self.quota_gpu_seconds
        return (quota - self.usage_gpu_seconds) * PPM // quota if quota > 0 else None

    @property
    def words(self) -> str:
        """Which way the number is to be read."""
        return balance_words(quota_gpu_seconds=self.quota_gpu_seconds, usage_gpu_seconds=self.usage_gpu_seconds)

    @property
    def sign(self) -> str:
        """The arrow beside the words."""
        return {"under-served": "arrow-down", "over-served": "arrow-up"}.get(self.words, "")

    @property
    def balance_text(self) -> str:
        if self.balance_ppm is None:
            return UNKNOWN
        return percent_words(self.balance_ppm).replace("-", "−")

    @property
    def used_text(self) -> str:
        """Usage as percent of the quota, also far above 100."""
        if self.quota_gpu_seconds <= 0:
            return UNKNOWN
        return percent_words(self.usage_gpu_seconds * PPM // self.quota_gpu_seconds)

    @property
    def bar_width(self) -> int:
        """The bar of usage stops at its end; the text beside says how far it really went."""
        if self.quota_gpu_seconds <= 0:
            return 0
        return min(BAR_WIDTH, self.usage_gpu_seconds * BAR_WIDTH // self.quota_gpu_seconds)

    @property
    def is_over(self) -> bool:
        return self.quota_gpu_seconds > 0 and self.usage_gpu_seconds > self.quota_gpu_seconds


@dataclass(frozen=True)
class TreeRow:
    """A project on a cluster: its budget in every unit, what it used, how that compares."""

    project: Project
    depth: int
    line: Line | None
    share: Fraction
    installed_gpus: int
    standing: Standing
    may_edit: bool = False
    given_ppm: int | None = None
    standings: Mapping[int, Standing] = field(default_factory=dict)

    @property
    def percent_text(self) -> str:
        return budget_units.percent_text(self.line.share_ppm) if self.line else ""

    @property
    def cluster_percent_text(self) -> str:
        return budget_units.decimal_text(self.share * 100, places=2)

    @property
    def gpus(self) -> Fraction:
        return self.share * self.installed_gpus

    @property
    def gpus_text(self) -> str:
        return budget_units.decimal_text(self.gpus, places=2)

    @property
    def hours_text(self) -> str:
        return f"{int(self.gpus * budget_units.WEEK_HOURS):,}"

    @property
    def left_ppm(self) -> int | None:
        """What is not given out to children: it stays with the project's own work. None: it has no children."""
        return None if self.given_ppm is None else PPM - self.given_ppm

    @property
    def given_text(self) -> str:
        return budget_units.percent_text(self.given_ppm or 0)

    @property
    def left_text(self) -> str:
        return "" if self.left_ppm is None else budget_units.percent_text(self.left_ppm)

    @property
    def by_cluster(self) -> list[Standing]:
        """One for each cluster, in the order in which they were asked for."""
        return list(self.standings.values())

    @property
    def has_budget(self) -> bool:
        return self.share > 0


def installed_gpus(*, cluster: Cluster) -> int:
    """GPUs of the cluster's hosts, whatever their state: what a budget's percent is shown of."""
    return Host.objects.filter(cluster=cluster, retired_at=None).aggregate(total=Sum("gpus"))["total"] or 0


def standings_at_last_pass(*, clusters: Collection[Cluster]) -> dict[tuple[int, int], Standing]:
    """(cluster id, project id) -> quota, usage and balance as the last pass left them."""
    rows = Balance.objects.filter(cluster__in=clusters).values_list(
        "cluster_id", "project_id", "quota_gpu_seconds", "usage_gpu_seconds", "at"
    )
    return {(cluster_id, project_id): Standing(quota, usage, at) for cluster_id, project_id, quota, usage, at in rows}


def standings_at(*, cluster: Cluster, at: datetime, now: datetime) -> dict[tuple[int, int], Standing]:
    """The same for a moment that may be past, when it is of the hour before; of what is ahead nothing is known."""
    if at == now:
        return standings_at_last_pass(clusters=[cluster])
    found = balances_at(cluster_ids=[cluster.pk], at=at) if at < now else {}
    return {key: Standing(each.quota_gpu_seconds, each.usage_gpu_seconds, each.at) for key, each in found.items()}


def editable_paths(*, user: User) -> list[str] | None:
    """Paths at and below which the person may set budgets; None: everywhere."""
    if user.is_superuser:
        return None
    memberships = Membership.objects.filter(user_id=user.pk, role=Role.LEAD)
    return list(memberships.values_list("project__path", flat=True))


def below_any(path: str, paths: Collection[str] | None) -> bool:
    return paths is None or any(path == above or path.startswith(f"{above}/") for above in paths)


def tree_rows(
    *,
    user: User,
    cluster: Cluster,
    at: datetime,
    clusters: Collection[Cluster] = (),
    now: datetime | None = None,
    also: Project | None = None,
) -> list[TreeRow]:
    """Every project that the person may see, parents before children, with the budgets in force at that moment.

    Use and balances are the last pass's, or with `now` those of the moment too. Archived ones are left out but `also`.
    """
    shown = Q(archived_at=None) | Q(pk=also.pk if also else None)
    projects = sorted(projects_visible(user=user).filter(shown), key=lambda each: each.path.split("/"))
    lines, shares, _ = shares_at(cluster=cluster, at=at)
    installed = installed_gpus(cluster=cluster)
    if now is None:
        standings = standings_at_last_pass(clusters=clusters or [cluster])
    else:
        standings = standings_at(cluster=cluster, at=at, now=now)
    leads = editable_paths(user=user)
    children = {project.parent_id for project in projects}
    given: dict[int | None, int] = {}
    for project in projects:
        given[project.parent_id] = given.get(project.parent_id, 0) + lines.get(project.pk, Line(0, None)).share_ppm
    shallowest = min((project.depth for project in projects), default=0)
    return [
        TreeRow(
            project=project,
            depth=project.depth - shallowest,
            line=lines.get(project.pk),
            share=shares.get(project.pk, Fraction(0)),
            installed_gpus=installed,
            standing=standings.get((cluster.pk, project.pk), Standing()),
            may_edit=project.pk in children and below_any(project.path, leads),
            given_ppm=given[project.pk] if project.pk in children else None,
            standings={each.pk: standings.get((each.pk, project.pk), Standing()) for each in clusters},
        )
        for project in projects
    ]
