"""What a submission would mean now, from the balances of the last pass: a forecast for the form, not a decision.

The pass decides by the same rules (R2, R7) with what is true then; this only tells people beforehand.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from portal.budgets.selectors import Line, budgets_at
from portal.clusters.models import Cluster
from portal.clusters.selectors import policy_values
from portal.common.units import PPM
from portal.projects.models import Project
from portal.projects.selectors import ancestor_paths
from portal.scheduling.models import Balance


@dataclass(frozen=True)
class LevelPreview:
    """A project on the path, the root left out: its quota and usage, before and with the contract."""

    path: str
    quota_gpu_seconds: int
    usage_gpu_seconds: int
    contract_gpu_seconds: int
    burst_gpus: int | None

    @property
    def has_budget(self) -> bool:
        """Whether it has a quota at all."""
        return self.quota_gpu_seconds > 0

    @property
    def balance_ppm(self) -> int | None:
        """(Q - U) / Q in parts per million; None without a quota."""
        return self._ppm(self.usage_gpu_seconds)

    @property
    def balance_after_ppm(self) -> int | None:
        """The same, once the contract is charged."""
        return self._ppm(self.usage_gpu_seconds + self.contract_gpu_seconds)

    def _ppm(self, usage: int) -> int | None:
        return (self.quota_gpu_seconds - usage) * PPM // self.quota_gpu_seconds if self.has_budget else None


@dataclass(frozen=True)
class Preview:
    """The forecast. `obstacle` is None when it would be funded now, else which rule stands in the way, and where."""

    gpus: int
    contract_gpu_seconds: int
    levels: list[LevelPreview]
    express: bool
    obstacle: str | None
    at_level: LevelPreview | None
    measured_at: datetime | None
    left_ppm: int | None = None  # what a project with projects below has not given out to them; None: it has none

    @property
    def own(self) -> LevelPreview | None:
        """The project itself."""
        return self.levels[-1] if self.levels else None


def submission_preview(
    *, cluster: Cluster, project: Project, gpus: int, min_runtime_seconds: int, now: datetime
) -> Preview:
    """Whether a workload of `gpus` with that contract would be funded if it were considered now."""
    policy = policy_values(cluster=cluster)
    contract = gpus * min_runtime_seconds
    budgets = budgets_at(cluster=cluster, at=now)
    levels = _levels(cluster, project, contract, budgets)
    left_ppm = _left_ppm(project, budgets)
    express = 0 < min_runtime_seconds <= policy["express_seconds"] and gpus <= policy["express_gpus"]
    overdraw_limit_ppm = None if express else policy["overdraw_limit_ppm"]
    obstacle, at_level = _obstacle(levels, gpus, min_runtime_seconds, overdraw_limit_ppm)
    if obstacle is None and left_ppm == 0:
        obstacle = "nothing_left"
    measured_at = Balance.objects.filter(cluster=cluster).aggregate(at=Max("at"))["at"]
    return Preview(gpus, contract, levels, express, obstacle, at_level, measured_at, left_ppm)


def _left_ppm(project: Project, budgets: dict[int, Line]) -> int | None:
    """The share that the project's own work holds (R1), as if it were one more child."""
    below = Project.objects.filter(parent=project, archived_at=None).values_list("pk", flat=True)
    given = [budgets[pk].share_ppm for pk in below if pk in budgets]
    return PPM - sum(given) if given else None


def _levels(cluster: Cluster, project: Project, contract: int, budgets: dict[int, Line]) -> list[LevelPreview]:
    above = Project.objects.filter(path__in=ancestor_paths(project.path)[1:]).order_by("depth")
    names = dict(above.values_list("pk", "path"))
    balances = {row.project_id: row for row in Balance.objects.filter(cluster=cluster, project__in=names)}
    levels = []
    for project_id, path in names.items():
        row, line = balances.get(project_id), budgets.get(project_id)
        levels.append(
            LevelPreview(
                path,
                row.quota_gpu_seconds if row and line and line.share_ppm else 0,
                row.usage_gpu_seconds if row else 0,
                contract,
                line.burst_gpus if line else None,
            )
        )
    return levels


def _obstacle(
    levels: list[LevelPreview], gpus: int, min_runtime_seconds: int, overdraw_limit_ppm: int | None
) -> tuple[str | None, LevelPreview | None]:
    """The first rule that stands in the way; `overdraw_limit_ppm` None: express, whatever the balance (R7)."""
    if min_runtime_seconds == 0:
        return "no_contract", None
    for level in levels:
        if not level.has_budget:
            return "no_budget", level
        if overdraw_limit_ppm is not None and level.usage_gpu_seconds >= level.quota_gpu_seconds:
            return "balance", level
        if overdraw_limit_ppm is not None and (level.balance_after_ppm or 0) < -overdraw_limit_ppm:
            return "overdraw", level
        if level.burst_gpus is not None and gpus > level.burst_gpus:
            return "burst_cap", level
    return None, None
