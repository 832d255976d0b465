"""The core's reasons in the portal's words: its codes (R16), sentences with names in place of ids, numbers as data."""

import re
from functools import cached_property
from typing import Any

from portal.clusters.models import Cluster, Host
from portal.common.units import moment_of
from portal.projects.models import Project
from scheduler.explain import words, words_unnamed
from scheduler.types import Code, Reason

# Where the portal's word is another than the core's; the core's own stands in the data.
CODES = {
    Code.NO_BUDGET: "unfunded",
    Code.CONTRACT_OVER_BALANCE: "unfunded",
    Code.FULL_OF_PROTECTED: "cluster_full_protected",
    Code.NO_HOST_OF_SIZE: "no_host_of_that_size",
    Code.DRAINED: "host_drained",
}
# The root has no budget above it: it funds from the part of the cluster that it granted to no project below.
FUNDED_BY = (Code.FUNDED, Code.RECOVERED)
NO_BUDGET, OWN_PART = " (no budget)", ", from what it granted to no project below it"
# The numbers of a reason that say another project than the one that it is told to.
OTHERS = ("taker_project",)
PLACE = re.compile(r"<(project|host|workload|attempt|at) (\d+)>")


class Words:
    """Says reasons of one cluster; names are read once, and only when a reason speaks of one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @cached_property
    def _projects(self) -> dict[int, str]:
        return dict(Project.objects.order_by().values_list("pk", "path"))

    @cached_property
    def _hosts(self) -> dict[int, str]:
        return dict(Host.objects.filter(cluster=self._cluster).order_by().values_list("pk", "name"))

    def code(self, reason: Reason) -> str:
        """The portal's code."""
        return CODES.get(reason.code, reason.code.value)

    def text(self, reason: Reason) -> str:
        """The sentence, with names and moments."""
        said = words(reason)
        if reason.code in FUNDED_BY and "balance_ppm" not in reason.as_dict():
            said = said.replace(NO_BUDGET, OWN_PART)
        return PLACE.sub(self._name, said) if "<" in said else said

    def text_unnamed(self, reason: Reason) -> str:
        """The sentence for who may not see the other projects that the reason speaks of."""
        said = words_unnamed(reason)
        return PLACE.sub(self._name, said) if "<" in said else said

    def other_projects(self, reason: Reason) -> tuple[int, ...]:
        """The ids of the other projects that `text` names."""
        numbers = reason.as_dict()
        return tuple(numbers[name] for name in OTHERS if name in numbers)

    def data(self, reason: Reason) -> dict[str, Any]:
        """The numbers, and the core's own code."""
        return {"cause": reason.code.value, **reason.as_dict()}

    def _name(self, place: re.Match[str]) -> str:
        kind, number = place[1], int(place[2])
        match kind:
            case "project":
                return self._projects.get(number, f"project {number}")
            case "host":
                return self._hosts.get(number, f"host {number}")
            case "at":
                # Rounded up: what is said to happen by a minute has happened when that minute is over.
                return f"{moment_of(-(-number // 60) * 60):%Y-%m-%d %H:%M} UTC"
        return f"{kind} {number}"
