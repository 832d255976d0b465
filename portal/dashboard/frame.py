"""What stands around every page: navigation, cluster, time range, person. The URL holds all of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Exists, Min, OuterRef
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from portal.clusters.models import Cluster, Host, HostSpan
from portal.common.errors import Refused
from portal.common.units import DAY_SECONDS, WEEK_SECONDS, whole_second
from portal.projects.models import Project


@dataclass(frozen=True)
class Range:
    """A span of time that ends now."""

    key: str
    label: str
    words: str
    seconds: int
    previous_words: str


RANGES = {
    "24h": Range("24h", "24 h", "last 24 hours", DAY_SECONDS, "the 24 hours before"),
    "7d": Range("7d", "7 d", "last 7 days", WEEK_SECONDS, "the 7 days before"),
    "30d": Range("30d", "30 d", "last 30 days", 30 * DAY_SECONDS, "the 30 days before"),
}
RANGE_DEFAULT, RANGE_YOUNG = "7d", "24h"


@dataclass(frozen=True)
class NavigationItem:
    """One entry at the left. It is shown only when its URL exists, so nothing leads nowhere."""

    label: str
    url_name: str
    icon: str
    needs: str = ""

    def allows(self, user: Any) -> bool:
        """Whether `user` may open the page (site-wide people only, where `needs` says so)."""
        return self.needs != "site-wide" or bool(getattr(user, "is_site_wide", False))


NAVIGATION = (
    (
        "",
        (
            NavigationItem("Overview", "dashboard:overview", "layout-dashboard"),
            NavigationItem("Queue", "dashboard:queue", "list-numbers"),
            NavigationItem("Submit", "dashboard:submit", "send"),
            NavigationItem("Workloads", "dashboard:workloads", "stack-2"),
        ),
    ),
    (
        "Investment",
        (
            NavigationItem("Projects", "dashboard:projects", "folders"),
            NavigationItem("Budgets", "dashboard:budgets", "chart-donut-3"),
            NavigationItem("Proposals", "dashboard:proposals", "scale"),
        ),
    ),
    (
        "Evidence",
        (
            NavigationItem("Pyramid", "dashboard:pyramid", "pyramid"),
            NavigationItem("Queue wait", "dashboard:waits", "hourglass"),
            NavigationItem("Simulations", "dashboard:simulations", "flask"),
            NavigationItem("Weekly review", "dashboard:review", "calendar-stats"),
        ),
    ),
    (
        "Machines",
        (
            NavigationItem("Hosts", "dashboard:hosts", "server-2"),
            NavigationItem("Policy", "dashboard:policy", "adjustments"),
            NavigationItem("Audit", "dashboard:audit", "history", needs="site-wide"),
        ),
    ),
)


class Frame:
    """The frame of one request. Lenient: what the URL has wrong falls back, and `problems` says what it was."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.now: datetime = whole_second(timezone.now())
        self.site_name = settings.SITE_NAME
        self.zone = settings.SITE_ZONE
        self.ranges = RANGES
        self._range_key = request.GET.get("range", "")
        self._cluster_name = request.GET.get("cluster", "")

    def require(self) -> None:
        """Refuse a range or a cluster that does not exist, naming those that do."""
        if "range" in self.request.GET and self._range_key not in RANGES:
            raise Refused(f"range is {self._range_key[:40]!r}; it can be {', '.join(RANGES)}.", attr="range")
        if self._cluster_name and self._cluster_name not in {cluster.name for cluster in self.clusters}:
            names = ", ".join(cluster.name for cluster in self.clusters) or "none yet"
            raise Refused(f"There is no cluster {self._cluster_name[:60]!r}. Clusters: {names}.", attr="cluster")

    @cached_property
    def clusters(self) -> list[Any]:
        """Every cluster, with whether its hosts are simulated and whether this site is a demonstration."""
        if not getattr(self.request, "user", None) or not self.request.user.is_authenticated:
            return []
        simulated = Host.objects.filter(cluster=OuterRef("pk"), simulated=True, retired_at=None)
        demonstration = Project.objects.filter(is_demonstration=True)
        return list(Cluster.objects.annotate(simulated=Exists(simulated), demonstration=Exists(demonstration)))

    @cached_property
    def cluster(self) -> Any:
        """The cluster that the URL names, else the first; None when there is none."""
        by_name = {cluster.name: cluster for cluster in self.clusters}
        return by_name.get(self._cluster_name) or next(iter(self.clusters), None)

    @cached_property
    def accounted_from(self) -> datetime | None:
        """When the cluster's ledger begins: with its first host. None: it has had none."""
        if self.cluster is None:
            return None
        first = HostSpan.objects.filter(cluster=self.cluster).order_by().aggregate(first=Min("start_at"))["first"]
        return whole_second(first) if first else None

    @property
    def range(self) -> Range:
        """The time range that the URL names, else a week; a day while the ledger is younger than a week."""
        if self._range_key in RANGES:
            return RANGES[self._range_key]
        week = RANGES[RANGE_DEFAULT]
        return RANGES[RANGE_YOUNG] if self.accounted_part(self._ago(week), self.now)[1] else week

    def _ago(self, span: Range) -> datetime:
        return self.now - timedelta(seconds=span.seconds)

    def accounted_part(self, start: datetime, end: datetime) -> tuple[datetime, bool]:
        """Where [start, end) really begins: not before the ledger does, so that no mean is taken over nothing."""
        first = self.accounted_from
        is_cut = first is not None and start < first < end
        return (first, True) if is_cut and first else (start, False)

    @property
    def start_at(self) -> datetime:
        """The beginning of the range, or of the ledger inside it; whole seconds."""
        return self.accounted_part(self._ago(self.range), self.now)[0]

    @property
    def is_cut(self) -> bool:
        """Whether the ledger begins inside the range."""
        return self.accounted_part(self._ago(self.range), self.now)[1]

    @property
    def previous_start_at(self) -> datetime:
        """The beginning of the equally long range before."""
        return self.start_at - timedelta(seconds=self.range.seconds)

    @property
    def is_demonstration(self) -> bool:
        """Whether the site shows demonstration data."""
        return any(cluster.demonstration for cluster in self.clusters)

    @property
    def is_simulated(self) -> bool:
        """Whether the current cluster's GPUs are simulated."""
        return bool(self.cluster and self.cluster.simulated)

    @cached_property
    def carried(self) -> dict[str, str]:
        """Cluster and range as the URL gave them: what links from page to page carry along."""
        given = {"cluster": self._cluster_name, "range": self.request.GET.get("range", "")}
        return {name: value for name, value in given.items() if value}

    @property
    def query(self) -> str:
        """`?cluster=…&range=…` for links to other pages, or nothing."""
        return f"?{urlencode(self.carried)}" if self.carried else ""

    @cached_property
    def navigation(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """Groups of entries whose pages exist and that this person may open."""
        user = getattr(self.request, "user", None)
        groups = []
        for heading, items in NAVIGATION:
            shown = [entry for item in items if item.allows(user) and (entry := self._entry(item))]
            if shown:
                groups.append((heading, shown))
        return groups

    def _entry(self, item: NavigationItem) -> dict[str, Any] | None:
        try:
            url = reverse(item.url_name)
        except NoReverseMatch:
            return None
        path = self.request.path
        active = path == url if url == "/" else path.startswith(url)
        return {"label": item.label, "url": url + self.query, "icon": item.icon, "active": active}


def frame_of(request: HttpRequest) -> Frame:
    """The request's frame, made once."""
    frame = getattr(request, "_frame", None)
    if frame is None:
        frame = Frame(request)
        request._frame = frame  # type: ignore[attr-defined]
    return frame


def frame_context(request: HttpRequest) -> dict[str, Any]:
    """Context processor: `frame` in every template."""
    return {"frame": frame_of(request)}
