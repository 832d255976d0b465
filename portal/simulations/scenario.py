"""A scenario of the simulator (SPEC.md section 11): read from JSON, and put together with a trace. Django-free."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from portal.simulations.scenarios.jobs import Drawn, clusters_of, jobs_of, list_skipped, rounded_rows
from portal.simulations.scenarios.parts import (
    BudgetLine,
    ClusterSpec,
    HostFault,
    host_name,
    read_budget,
    read_cluster,
    read_contracts,
    read_fault,
    read_generator,
)
from portal.simulations.scenarios.tree import Tree, check_budgets
from portal.simulations.scenarios.values import Problems, Values
from portal.simulations.scenarios.values import ScenarioRefused as ScenarioRefused
from portal.simulations.traces.rows import IntArray, TraceRefused, TraceRows
from scheduler.simulation.setup import Contracts, HostEvent, HostSetup, ResearchLab, Scheduler, Setup
from scheduler.simulation.teams import make_teams

DAY_SECONDS = 86_400
DAYS_MAX = 3_660
SEED_MAX = (1 << 63) - 1
CLUSTERS_MAX = 100
KEYS = ("clusters", "projects", "workload", "warmup_days", "days", "host_events", "contracts")
GENERATED_DAYS, GENERATED_WARMUP_DAYS = 30, 7


@dataclass(frozen=True, slots=True)
class Scenario:
    """A sound scenario. `days` is None where the run ends when nothing is left to happen."""

    clusters: tuple[ClusterSpec, ...]
    budgets: tuple[BudgetLine, ...]
    generator: ResearchLab | None
    seed: int
    days: int | None
    warmup_days: int | None
    host_events: tuple[HostFault, ...]
    contracts: Contracts


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """One cluster's run, and what was done to the trace for it: a sentence each."""

    setup: Setup
    notes: tuple[str, ...]


def load_scenario(path: Path | str) -> Scenario:
    """A file of JSON."""
    return read_scenario(parse_json(Path(path)))


def parse_json(path: Path) -> Any:
    """JSON as it should be: UTF-8, no key twice, no NaN."""
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_constant)
    except OSError as error:
        raise ScenarioRefused([(str(path), f"can't be read ({error.strerror}).")]) from None
    except UnicodeDecodeError as error:
        raise ScenarioRefused([(str(path), f"is not UTF-8 text (byte {error.start + 1}).")]) from None
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise ScenarioRefused([(where, f"is not JSON ({error.msg}).")]) from None
    except (ValueError, RecursionError) as error:
        raise ScenarioRefused([(str(path), f"is not JSON ({error}).")]) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is there twice in one object")
    return found


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def read_scenario(given: Any) -> Scenario:
    """Check everything; raises ScenarioRefused with the place of each problem."""
    problems = Problems()
    values = Values.of("", given, problems)
    problems.raise_any()
    values.allow(KEYS)
    clusters = _clusters(values)
    names = tuple(dict.fromkeys(spec.name for spec in clusters))
    if "projects" not in values:
        values.wrong("projects", "must be given (a list; it may be empty)")
    budgets = tuple(read_budget(one, names) for one in values.parts("projects"))
    workload, contracts = values.part("workload"), values.part("contracts")
    faults = [read_fault(one, clusters) for one in values.parts("host_events")]
    scenario = Scenario(
        clusters=clusters,
        budgets=budgets,
        generator=read_generator(workload, contracts),
        seed=workload.whole("seed", 1, 0, SEED_MAX),
        days=values.whole_or_none("days", None, 1, DAYS_MAX),
        warmup_days=values.whole_or_none("warmup_days", None, 0, DAYS_MAX),
        host_events=tuple(fault for fault in faults if fault is not None),
        contracts=read_contracts(contracts),
    )
    for name in names if not problems.found else ():
        check_budgets([line for line in budgets if line.cluster == name], name, problems)
    problems.raise_any()
    return scenario


def _clusters(values: Values) -> tuple[ClusterSpec, ...]:
    parts = values.parts("clusters")
    if not parts or len(parts) > CLUSTERS_MAX:
        values.wrong("clusters", f"must be a list of 1 to {CLUSTERS_MAX} clusters")
    specs = tuple(read_cluster(one) for one in parts[:CLUSTERS_MAX])
    for number, spec in enumerate(specs):
        if spec.name and spec.name in [other.name for other in specs[:number]]:
            values.wrong(f"clusters[{number}].name", f"{spec.name} is there twice")
    return specs


def build_setups(scenario: Scenario, trace: TraceRows | None, seed: int | None = None) -> list[Setup]:
    """One run a cluster; a trace replaces the scenario's workload, and `seed` its seed."""
    return [built.setup for built in build(scenario, trace, seed)]


def build(scenario: Scenario, trace: TraceRows | None, seed: int | None = None) -> list[Built]:
    """As `build_setups`, with notes. Raises ScenarioRefused or TraceRefused."""
    seed = scenario.seed if seed is None else seed
    if trace is None:
        if scenario.generator is None:
            words = 'there is no work: give a trace, or {"generator": "research-lab"}.'
            raise ScenarioRefused([("workload", words)])
        return [_generated(scenario, spec, scenario.generator, seed) for spec in scenario.clusters]
    drawn = Drawn.of(trace, scenario.contracts, seed)
    cluster = clusters_of(trace, scenario.clusters, scenario.budgets)
    end = None if scenario.days is None else (scenario.days + (scenario.warmup_days or 0)) * DAY_SECONDS
    built = []
    for number, spec in enumerate(scenario.clusters):
        rows = np.flatnonzero(cluster == number)
        late = 0 if end is None else int((trace.submit_at[rows] >= end).sum())
        if len(rows) > late:
            built.append(_replayed(scenario, spec, trace, drawn, rows, late, seed))
    if not built:
        raise TraceRefused(trace.file, f"has no job in the {scenario.days} days of the scenario")
    return built


def _generated(scenario: Scenario, spec: ClusterSpec, generator: ResearchLab, seed: int) -> Built:
    tree = Tree.of(line for line in scenario.budgets if line.cluster == spec.name)
    days = GENERATED_DAYS if scenario.days is None else scenario.days
    warmup = GENERATED_WARMUP_DAYS if scenario.warmup_days is None else scenario.warmup_days
    setup = _setup(scenario, spec, tree, seed, generator=generator, days=days, warmup_days=warmup)
    if not tree.lines:
        projects, shares = make_teams(generator)
        setup = replace(setup, projects=projects, shares=shares)
    return Built(setup, ())


def _replayed(
    scenario: Scenario, spec: ClusterSpec, trace: TraceRows, drawn: Drawn, rows: IntArray, late: int, seed: int
) -> Built:
    tree = Tree.of(line for line in scenario.budgets if line.cluster == spec.name)
    present = np.unique(trace.project[rows]).tolist()
    found = {trace.projects[index]: tree.find(trace.projects[index]) for index in present}
    listed = {line.path for line in tree.lines} | {tree.root}
    strangers = [name for name, path in found.items() if path is None]
    for name in strangers:
        tree.add(name)
    order = {path: number for number, path in enumerate(tree.parents)}
    project = np.full(len(trace.projects), -1, dtype=np.int64)
    for index in present:
        name = trace.projects[index]
        project[index] = order[found[name] or name]
    jobs, changed = jobs_of(trace, rows, drawn, spec, scenario.contracts, project)
    notes = list_skipped(trace, {name: path for name, path in found.items() if path and path != name})
    if late:
        notes.append(f"The trace is cut at day {(scenario.days or 0) + (scenario.warmup_days or 0)}: {late} jobs "
                     f"submitted later are left out.")  # fmt: skip
    if changed:
        notes.append(f"{changed} jobs ask for a minimum runtime outside the policy's bounds; the nearest bound counts.")
    homeless = [name for name in found if (found[name] or name) not in listed]
    if homeless and spec.policy.scheduler is Scheduler.BUDGETS:
        notes.append(f"Projects without a budget: {', '.join(homeless)}.")
    rounded = int(rounded_rows(trace)[rows].sum())
    setup = _setup(
        scenario, spec, tree, seed, jobs=jobs, days=scenario.days, warmup_days=scenario.warmup_days or 0,
        rounded_jobs=rounded,
    )  # fmt: skip
    return Built(setup, tuple(notes))


def _setup(scenario: Scenario, spec: ClusterSpec, tree: Tree, seed: int, **work: Any) -> Setup:
    gpus = np.repeat([group.gpus for group in spec.groups], [group.count for group in spec.groups])
    names = tuple(host_name(spec.name, number) for number in range(len(gpus)))
    return Setup(
        name=spec.name,
        hosts=HostSetup(names, gpus.astype(np.int64), np.zeros(len(gpus), dtype=np.int64)),
        projects=tree.projects(),
        shares=tree.shares(),
        scheduler=spec.policy.scheduler,
        policy=spec.policy.policy,
        contracts=scenario.contracts,
        host_events=tuple(
            HostEvent(fault.host, fault.at, fault.kind, fault.repair_seconds)
            for fault in scenario.host_events
            if fault.cluster == spec.name
        ),
        pass_interval_seconds=spec.policy.pass_interval_seconds,
        max_gpus_per_user=spec.policy.max_gpus_per_user,
        project_limit_workloads=spec.policy.project_limit_workloads,
        seed=seed,
        **work,
    )
