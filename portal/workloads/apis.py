"""REST: hosts, with what occupies their GPUs. Workloads themselves stand with their charges, in portal.usage."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from portal.clusters.filters import HostFilter
from portal.clusters.models import Host, HostState
from portal.clusters.selectors import hosts_installed
from portal.clusters.serializers import HostSerializer
from portal.common.apis import Rows, RowsView, RowView, row_or_404
from portal.common.units import whole_second
from portal.workloads.models import AttemptState, GpuClaim
from portal.workloads.selectors import hosts_empty_at

FIELDS = (
    "id", "name", "cluster__name", "state", "state_cause", "gpus", "gpu_model", "simulated", "separates_users",
    "topology_block", "cordoned_at", "cordon_reason", "ready_at", "last_heard_at", "agent_version",
)  # fmt: skip


class HostList(RowsView):
    """Hosts that are not retired, by name. Everyone who is signed in may see them."""

    queryset = Host.objects.all()
    serializer_class = HostSerializer
    filterset_class = HostFilter
    fields = FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = hosts_installed().select_related(None).order_by("name")
        return found

    def rows(self, page: Any) -> Rows:
        return host_rows(list(page))


class HostDetail(RowView):
    """One host, by its name."""

    queryset = Host.objects.all()
    serializer_class = HostSerializer
    lookup_field = "name"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        hosts = hosts_installed().select_related(None).values(*FIELDS)
        return host_rows([row_or_404(hosts, "host", name=kwargs["name"])])[0]


def host_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers, with what is occupied and held, and until when, in three queries for all."""
    occupied, held = claims_counted(row["id"] for row in rows)
    empty_at = hosts_empty_at(host_ids=[row["id"] for row in rows], now=whole_second(timezone.now()))
    answers = []
    for row in rows:
        answer = {name: value for name, value in row.items() if name != "cluster__name"}
        busy = occupied[row["id"]] + held[row["id"]]
        free = max(row["gpus"] - busy, 0) if row["state"] == HostState.SCHEDULABLE else 0
        answers.append(
            {
                **answer,
                "cluster": row["cluster__name"],
                "occupied_gpus": occupied[row["id"]],
                "held_gpus": held[row["id"]],
                "free_gpus": free,
                "empty_at": empty_at.get(row["id"]),
            }
        )
    return answers


def claims_counted(host_ids: Iterable[int]) -> tuple[Counter[int], Counter[int]]:
    """GPUs of each host that are occupied, and those that are held for an attempt and no longer occupied by any."""
    open_claims = GpuClaim.objects.exclude(attempt__state=AttemptState.ENDED).filter(host__in=list(host_ids))
    slots = open_claims.order_by().values_list("host", "gpu_index").distinct()
    occupied = set(slots.filter(occupied__upper_inf=True))
    held = set(slots.filter(held__upper_inf=True)) - occupied
    return Counter(host for host, _ in occupied), Counter(host for host, _ in held)
