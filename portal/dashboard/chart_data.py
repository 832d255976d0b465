"""From the ledger's selectors to what charts take: steps, capacity, waits in classes and steps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from portal.clusters.models import Cluster
from portal.common.units import HOUR_SECONDS, moment_of
from portal.dashboard.chart_delivery import Owed
from portal.dashboard.chart_usage import Level, Step
from portal.dashboard.chart_waits import WaitStep
from portal.dashboard.ranges import Span
from portal.projects.models import Project, User
from portal.usage.selectors import (
    WAIT_CLASSES,
    HourlyDelivery,
    Occupancy,
    SegmentColumns,
    WaitColumns,
    occupancy_by_standing,
    usage_by_author,
)
from portal.workloads.models import CHARGED_STANDINGS, Standing


def occupancy_of(
    *, cluster: Cluster, span: Span, columns: SegmentColumns | None = None, project: Project | None = None
) -> Occupancy:
    return occupancy_by_standing(
        cluster=cluster,
        start=span.start_at,
        end=span.end_at,
        step_seconds=span.step_seconds,
        project=project,
        columns=columns,
    )


def steps_of(occupancy: Occupancy) -> list[Step]:
    """The range's steps with the GPU-seconds of each standing."""
    return [
        Step(start, end, {standing: values[position] for standing, values in occupancy.by_standing.items()})
        for position, (start, end) in enumerate(_neighbours(occupancy.edges))
    ]


def capacity_of(occupancy: Occupancy) -> list[Level]:
    """Schedulable GPUs, the mean of each step."""
    return [
        Level(start, occupancy.schedulable[position] / (end - start).total_seconds())
        for position, (start, end) in enumerate(_neighbours(occupancy.edges))
    ]


def _neighbours(edges: list[datetime]) -> list[tuple[datetime, datetime]]:
    return list(zip(edges, edges[1:], strict=False))


def charged(steps: Iterable[Step]) -> int:
    return sum(step.total([str(standing) for standing in CHARGED_STANDINGS]) for step in steps)


def unallocated(steps: Iterable[Step]) -> int:
    return sum(step.gpu_seconds.get(str(Standing.UNALLOCATED), 0) for step in steps)


def owed_steps(hourly: HourlyDelivery, project: Project, span: Span) -> list[Owed]:
    """A project's hours, joined to stretches about as long as the range's steps."""
    owed, delivered = hourly.owed[project.pk], hourly.delivered[project.pk]
    size = max(1, span.step_seconds // HOUR_SECONDS)
    return [
        Owed(
            hourly.edges[first],
            hourly.edges[min(first + size, len(owed))],
            sum(owed[first : first + size]),
            sum(delivered[first : first + size]),
        )
        for first in range(0, len(owed), size)
    ]


def waits_by_class(samples: WaitColumns, *, restart: bool) -> dict[str, list[int]]:
    """Waits in rising order by class, of first starts or of restarts."""
    return {
        name: _rising(samples, (samples.size_class == index) & (samples.restart == restart))
        for index, name in enumerate(WAIT_CLASSES)
    }


def waits_by_project(samples: WaitColumns, names: Mapping[int, str]) -> dict[str, list[int]]:
    """Waits of first starts in rising order, by the path of the project that submitted."""
    return {
        names[project_id]: waits
        for project_id in (int(each) for each in np.unique(samples.project))
        if project_id in names and (waits := _rising(samples, (samples.project == project_id) & ~samples.restart))
    }


def _rising(samples: WaitColumns, chosen: NDArray[np.bool_]) -> list[int]:
    return sorted(samples.wait_seconds[chosen].tolist())


def wait_steps(samples: WaitColumns, edges: list[datetime]) -> dict[str, list[WaitStep]]:
    """First starts of each class, in the step in which they started."""
    moments = [int(edge.timestamp()) for edge in edges]
    first = ~samples.restart
    position = np.searchsorted(moments, samples.started_at, side="right") - 1
    return {
        name: [
            WaitStep(start, end, _rising(samples, first & (position == step) & (samples.size_class == index)))
            for step, (start, end) in enumerate(_neighbours(edges))
        ]
        for index, name in enumerate(WAIT_CLASSES)
    }


def edges_of(span: Span) -> list[datetime]:
    """The moments between which the range's steps lie."""
    first, last = int(span.start_at.timestamp()), int(span.end_at.timestamp())
    return [*(moment_of(each) for each in range(first, last, span.step_seconds)), span.end_at]


@dataclass(frozen=True)
class AuthorUse:
    """What one person's workloads used in a project, below included."""

    username: str
    charged_gpu_seconds: int
    unallocated_gpu_seconds: int
    workloads: int


def authors_of(*, columns: SegmentColumns, project: Project, span: Span) -> list[AuthorUse]:
    """Who used it, most charged first. One query."""
    rows = usage_by_author(columns=columns.below(project.pk), start=span.start_at, end=span.end_at)
    names = dict(User.objects.filter(pk__in=[row.author_id for row in rows]).values_list("pk", "username"))
    found = [
        AuthorUse(names[row.author_id], row.charged_gpu_seconds, row.unallocated_gpu_seconds, row.workloads)
        for row in rows
    ]
    return sorted(found, key=lambda each: (-each.charged_gpu_seconds, -each.unallocated_gpu_seconds, each.username))
