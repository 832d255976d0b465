"""The parts of a scenario: clusters, budgets, contracts, faults, generator; what each may hold, within what bounds."""

from dataclasses import dataclass
from decimal import Decimal

from portal.simulations.scenarios.policies import ClusterPolicy, read_policy
from portal.simulations.scenarios.values import Values
from portal.simulations.traces.building import path_problem
from portal.simulations.traces.nodes import HostGroup
from scheduler.simulation.setup import Contracts, HostChange, ResearchLab
from scheduler.types import NEVER

GPUS_MAX = 1 << 20
HOSTS_MAX = 100_000
SECONDS_MAX = 10 * 366 * 86_400
PERCENT_PPM = 10_000
GENERATOR = "research-lab"
GENERATOR_BOUNDS = {
    "teams": (1, 500),
    "users": (1, 100_000),
    "budgets_ppm": (1, 1_000_000),
    "backlog_factor": (0, 100),
    "idle_week_fraction": (0, 1),
    "zero_min_runtime_fraction": (0, 1),
    "debug_per_gpu_day": (0, 100),
    "host_failures_per_host_year": (0, 1_000),
    "host_repair_seconds": (60, SECONDS_MAX),
}
CONTRACT_KEYS = {
    "min_runtime_s": "min_runtime_seconds",
    "restart_overhead_s": "restart_overhead_seconds",
}
DEBUG_KEYS = {
    "max_gpus": "debug_max_gpus",
    "max_duration_s": "debug_max_duration_seconds",
    "min_runtime_s": "debug_min_runtime_seconds",
}


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A pool of hosts and its policy."""

    name: str
    groups: tuple[HostGroup, ...]
    policy: ClusterPolicy

    @property
    def hosts(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A project's budget on a cluster from a second on."""

    place: str
    path: str
    cluster: str
    share_ppm: int  # of the parent's share
    burst_gpus: int | None
    from_seconds: int


@dataclass(frozen=True, slots=True)
class HostFault:
    """Something happens to a host."""

    cluster: str
    host: int
    at: int
    kind: HostChange
    repair_seconds: int


def read_cluster(values: Values) -> ClusterSpec:
    """`hosts` is a number, or a list of {count, gpus, model}."""
    values.allow(("name", "hosts", "gpus_per_host", "policy"))
    return ClusterSpec(values.text("name"), _groups(values), read_policy(values.part("policy")))


def _groups(values: Values) -> tuple[HostGroup, ...]:
    if isinstance(values.given.get("hosts"), list):
        groups = []
        for one in values.parts("hosts"):
            one.allow(("count", "gpus", "model"))
            model = one.text("model") if one.given.get("model") is not None else ""
            groups.append(HostGroup(one.whole("count", 1, 1, HOSTS_MAX), one.whole("gpus", 0, 1, GPUS_MAX), model))
        if not groups:
            values.wrong("hosts", "must have an entry")
        if "gpus_per_host" in values:
            values.wrong("gpus_per_host", "goes with a number of hosts, not with a list of them")
    else:
        groups = [HostGroup(values.whole("hosts", 0, 1, HOSTS_MAX), values.whole("gpus_per_host", 8, 1, GPUS_MAX), "")]
    hosts, gpus = sum(group.count for group in groups), sum(group.count * group.gpus for group in groups)
    if hosts > HOSTS_MAX or gpus > GPUS_MAX:
        values.wrong("hosts", f"are {hosts} with {gpus} GPUs; the most is {HOSTS_MAX} with {GPUS_MAX}")
    return tuple(groups)


def read_budget(values: Values, clusters: tuple[str, ...]) -> BudgetLine:
    """One line of `projects`."""
    values.allow(("path", "cluster", "share_percent", "burst_gpus", "from_s"))
    path = values.text("path")
    problem = path_problem(path) if path else None
    if problem:
        values.wrong("path", f"{path!r} {problem}")
    share = values.number("share_percent", 0.0, 0, 100) if "share_percent" in values else _missing(values)
    return BudgetLine(
        place=values.place,
        path=path,
        cluster=_cluster(values, clusters),
        share_ppm=int(Decimal(repr(share)) * PERCENT_PPM),
        burst_gpus=values.whole_or_none("burst_gpus", None, 0, GPUS_MAX),
        from_seconds=values.whole("from_s", 0, 0, SECONDS_MAX),
    )


def _missing(values: Values) -> float:
    values.wrong("share_percent", "must be given")
    return 0.0


def _cluster(values: Values, clusters: tuple[str, ...]) -> str:
    """May be left out where there is one cluster only."""
    if "cluster" not in values and len(clusters) == 1:
        return clusters[0]
    return values.text("cluster", "", valid=clusters)


def read_contracts(values: Values) -> Contracts:
    """What a workload is given that names no contract of its own."""
    values.allow((*CONTRACT_KEYS, "debug", "zero_min_runtime_fraction", "resumable", "checkpoint_interval_s"))
    usual = Contracts()
    debug = values.part("debug")
    debug.allow(DEBUG_KEYS)
    chosen = {to: values.whole(key, getattr(usual, to), 0, SECONDS_MAX) for key, to in CONTRACT_KEYS.items()}
    chosen |= {to: debug.whole(key, getattr(usual, to), 0, SECONDS_MAX) for key, to in DEBUG_KEYS.items()}
    checkpoint = values.whole_or_none("checkpoint_interval_s", usual.checkpoint_interval_seconds, 1, SECONDS_MAX)
    return Contracts(
        **chosen,
        zero_min_runtime_fraction=values.number("zero_min_runtime_fraction", usual.zero_min_runtime_fraction, 0, 1),
        resumable=values.flag("resumable", usual.resumable),
        checkpoint_interval_seconds=NEVER if checkpoint is None else checkpoint,
    )


def read_fault(values: Values, clusters: tuple[ClusterSpec, ...]) -> HostFault | None:
    """One of `host_events`: hosts are named cluster-000, cluster-001 and so on."""
    values.allow(("host", "at_s", "event", "repair_s"))
    name = values.text("host")
    cluster, _, number = name.rpartition("-")
    spec = next((one for one in clusters if one.name == cluster), None)
    kind = HostChange(values.text("event", HostChange.FAIL.value, valid=[one.value for one in HostChange]))
    at = values.whole("at_s", 0, 0, SECONDS_MAX)
    if "at_s" not in values:
        values.wrong("at_s", "must be given")
    repair = values.whole_or_none("repair_s", None, 1, SECONDS_MAX)
    if spec is None or not _is_host_number(number, spec.hosts):
        if name:
            known = ", ".join(f"{host_name(one.name, 0)} to {host_name(one.name, one.hosts - 1)}" for one in clusters)
            values.wrong("host", f"{name!r} is not a host of the scenario ({known})")
        return None
    return HostFault(cluster, int(number), at, kind, NEVER if repair is None else repair)


def _is_host_number(number: str, hosts: int) -> bool:
    return number.isascii() and number.isdecimal() and len(number) < 10 and int(number) < hosts


def host_name(cluster: str, number: int) -> str:
    """The name of a host, counted from 0."""
    return f"{cluster}-{number:03d}"


def read_generator(values: Values, contracts: Values) -> ResearchLab | None:
    """`workload`: a generator with its numbers, or none (then there must be a trace)."""
    values.allow(("generator", "seed", *GENERATOR_BOUNDS))
    if "generator" not in values:
        given = [name for name in GENERATOR_BOUNDS if name in values]
        if given:
            values.wrong(given[0], "goes with a generator")
        return None
    values.text("generator", GENERATOR, valid=[GENERATOR])
    usual = ResearchLab()
    chosen: dict[str, float] = {}
    for name, (least, most) in GENERATOR_BOUNDS.items():
        default = getattr(usual, name)
        read = values.whole if isinstance(default, int) else values.number
        chosen[name] = read(name, default, least, most)
    zero = "zero_min_runtime_fraction"
    if zero in contracts and zero not in values:
        chosen[zero] = contracts.number(zero, usual.zero_min_runtime_fraction, 0, 1)
    return ResearchLab(**chosen)  # type: ignore[arg-type]
