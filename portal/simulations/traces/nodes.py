"""Files that describe a cluster: hosts with their GPUs and models (Alibaba), or budgets as nodes (Philly)."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from portal.simulations.traces.rows import TraceRefused
from portal.simulations.traces.tables import Table
from portal.simulations.traces.text import checked, read_bytes

HOST_GPUS_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Hosts that are alike."""

    count: int
    gpus: int
    model: str


def read_hosts(source: Path | str | bytes | BinaryIO, *, name: str | None = None) -> list[HostGroup]:
    """Hosts by GPUs and model, in the order in which each kind first appears; the columns `gpu` and `model`."""
    file, data = read_bytes(source, name)
    table = Table(file, checked(file, data))
    gpus_name = "gpus" if "gpus" in table.header else "gpu"
    table.require(gpus_name)
    counts: dict[tuple[int, str], int] = {}
    for chunk in table.chunks():
        gpus = chunk[gpus_name].whole(0, HOST_GPUS_MAX).tolist()
        models = [cell.strip() for cell in chunk["model"].cells] if "model" in chunk else [""] * len(gpus)
        for kind in zip(gpus, models, strict=True):
            counts[kind] = counts.get(kind, 0) + 1
    if not counts:
        raise TraceRefused(file, "has no hosts after the header")
    return [HostGroup(count, gpus, model) for (gpus, model), count in counts.items()]


def read_vc_nodes(source: Path | str | bytes | BinaryIO, *, name: str | None = None) -> dict[str, int]:
    """Nodes of each of Philly's virtual clusters."""
    file, data = read_bytes(source, name)
    table = Table(file, checked(file, data))
    table.require("vc", "nodes_of_8_gpus")
    nodes: dict[str, int] = {}
    for chunk in table.chunks():
        chunk["vc"].check_names()
        counts = chunk["nodes_of_8_gpus"].whole(0, HOST_GPUS_MAX).tolist()
        for row, (vc, count) in enumerate(zip(chunk["vc"].cells, counts, strict=True)):
            if vc.strip() in nodes:
                raise chunk["vc"].refusal(row, "is there twice")
            nodes[vc.strip()] = count
    if not nodes:
        raise TraceRefused(file, "has no virtual clusters after the header")
    return nodes
