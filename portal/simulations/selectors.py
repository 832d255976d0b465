"""Which runs there are, who may start them, and which names of a report a person sees."""

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db.models import FloatField, Max, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from portal.common.errors import NotFound
from portal.common.permissions import role_covers
from portal.projects.models import Membership, Role, User
from portal.simulations.models import OPEN_STATES, Run, RunState, UploadedTrace

LONG_AGO = datetime.min.replace(tzinfo=UTC)
HEAVY = ("scenario", "report", "notes")
"""Columns that a list of runs doesn't read."""


def may_run(*, user: User) -> bool:
    """Leads of any project, operators and administrators start simulations."""
    if user.is_site_wide:
        return True
    return Membership.objects.filter(user_id=user.pk, role=Role.LEAD).exists()


def may_cancel(*, user: User, run: Run) -> bool:
    """Its author, operators, administrators, and leads of a root."""
    if user.is_site_wide or run.author_id == user.pk:
        return True
    roles = Membership.objects.filter(user_id=user.pk, project__parent=None).values_list("role", flat=True)
    return any(role_covers(role, "cancel_any") for role in roles)


def sees_all(*, user: User) -> bool:
    """Whether every project's name and budget is theirs to see: site-wide people, and members of a root."""
    return user.is_site_wide or Membership.objects.filter(user_id=user.pk, project__parent=None).exists()


def runs_listed() -> QuerySet[Run]:
    """Every run, newest first, without what is large, with two figures of its report. Anyone may read them."""
    fields = {"delivery_mean": "report__delivery_mean", "debug_p90_s": "report__waits__debug__p90_s"}
    figures = {name: Cast(KT(path), FloatField()) for name, path in fields.items()}
    return Run.objects.select_related("cluster", "author").defer(*HEAVY).annotate(**figures)


def runs_done(*, but: int) -> QuerySet[Run]:
    """Runs with a report, newest first, to compare one with."""
    return runs_listed().filter(state=RunState.DONE).exclude(pk=but)


def run_by_id(*, run_id: int) -> Run:
    """The run with all that belongs to it, or an error."""
    run = Run.objects.select_related("cluster", "author", "trace").defer("trace__content").filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"There is no simulation {run_id}.", attr="simulation")
    return run


def runs_ahead(*, run: Run) -> int:
    """How many were asked for before it and wait or run."""
    return Run.objects.filter(state__in=OPEN_STATES, pk__lt=run.pk).count() if run.state == RunState.QUEUED else 0


def open_runs_of(*, user: User) -> int:
    """How many of the person's runs wait or run."""
    return Run.objects.filter(author=user, state__in=OPEN_STATES).count()


def trace_bytes_of(*, user: User) -> int:
    """How much of the person's traces is kept."""
    return UploadedTrace.objects.filter(author=user).aggregate(total=Sum("size_bytes"))["total"] or 0


def traces_of(*, user: User) -> QuerySet[UploadedTrace]:
    """The person's traces, newest first, without their content."""
    return UploadedTrace.objects.filter(author=user).defer("content").order_by("-pk")


def next_queued(*, passing: Iterable[int] = ()) -> int | None:
    """The run whose turn it is: of the person whose last start is longest ago, the oldest. `passing` are left out."""
    queued = list(
        Run.objects.filter(state=RunState.QUEUED).exclude(pk__in=passing).order_by("pk").values_list("pk", "author_id")
    )
    started = Run.objects.filter(author__in={author for _, author in queued if author}, started_at__isnull=False)
    last = dict(started.order_by().values_list("author_id", Max("started_at")))
    return min(queued, key=lambda each: (last.get(each[1], LONG_AGO), each[0]), default=(None, None))[0]
