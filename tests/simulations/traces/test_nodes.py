"""Files that describe a cluster."""

from pathlib import Path

import pytest

from portal.simulations.traces.nodes import HostGroup, read_hosts, read_vc_nodes
from portal.simulations.traces.rows import TraceRefused

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "traces"


def test_the_alibaba_nodes_are_a_cluster_of_several_models() -> None:
    groups = read_hosts(EXAMPLES / "alibaba_gpu_v2023.nodes.csv")
    assert sum(group.count for group in groups) == 1213
    assert sum(group.count * group.gpus for group in groups) == 6212
    assert HostGroup(549, 8, "G2") in groups
    assert len({group.model for group in groups}) == 7


def test_the_philly_nodes_add_up() -> None:
    nodes = read_vc_nodes(EXAMPLES / "philly_vc_nodes.csv")
    assert (len(nodes), sum(nodes.values()), nodes["6214e9"]) == (11, 352, 64)


def test_a_bad_host_is_refused_with_its_line() -> None:
    with pytest.raises(TraceRefused, match="nodes.csv, line 3, column gpu: 'many' is not a number"):
        read_hosts(b"sn,gpu,model\na,8,T4\nb,many,T4\n", name="nodes.csv")


def test_a_virtual_cluster_is_there_once() -> None:
    with pytest.raises(TraceRefused, match="line 3, column vc: 'a' is there twice"):
        read_vc_nodes(b"vc,nodes_of_8_gpus\na,8\na,4\n", name="nodes.csv")
