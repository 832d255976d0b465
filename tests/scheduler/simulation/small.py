"""Small setups for tests of the simulator, a line each."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.simulation.engine import start_run
from scheduler.simulation.figures import build_report
from scheduler.simulation.loop import Loop
from scheduler.simulation.report import Report
from scheduler.simulation.setup import Contracts, HostSetup, Jobs, ProjectSetup, ResearchLab, Setup
from scheduler.simulation.teams import make_teams
from scheduler.types import NEVER, PPM, ShareSteps

TRACES = Path(__file__).resolve().parents[3] / "examples" / "traces"
HOUR, DAY = 3600, 86400


def hosts_make(count: int, gpus: int = 8) -> HostSetup:
    """Like hosts, all in one block."""
    names = tuple(f"h{number:03}" for number in range(count))
    return HostSetup(names, np.full(count, gpus, dtype=np.int64), np.zeros(count, dtype=np.int64))


def jobs_make(*rows: dict[str, Any]) -> Jobs:
    """Jobs: one GPU for an hour, without a minimum runtime, of project 1, unless a row says otherwise."""
    usual = {
        "project": 1,
        "user": 0,
        "submit_at": 0,
        "duration_seconds": HOUR,
        "replicas": 1,
        "gpus_per_replica": 1,
        "min_runtime_seconds": 0,
        "resumable": True,
        "allow_unallocated": True,
        "priority": 0,
        "checkpoint_interval_seconds": 1800,
    }
    full = [{"id": number, **usual, **row} for number, row in enumerate(rows)]
    flags = ("resumable", "allow_unallocated")
    return Jobs(
        **{name: np.array([row[name] for row in full], dtype=bool if name in flags else np.int64) for name in full[0]}
    )


def setup_make(
    jobs: Jobs | None, *, hosts: int = 1, gpus: int = 8, shares: tuple[int, ...] = (50, 50), **more: Any
) -> Setup:
    """One level of projects, `lab/1`, `lab/2`..., with these percents from the start."""
    projects = (ProjectSetup("lab", NEVER), *(ProjectSetup(f"lab/{n + 1}", 0) for n in range(len(shares))))
    rows = np.arange(1, len(shares) + 1, dtype=np.int64)
    steps = ShareSteps(
        rows, np.zeros_like(rows), np.array(shares, dtype=np.int64) * PPM // 100, np.full_like(rows, NEVER)
    )
    more = {"days": None, "check_every": 10, **more}
    return Setup(hosts=hosts_make(hosts, gpus), projects=projects, shares=steps, jobs=jobs, **more)


def lab_make(hosts: int = 8, days: int = 1, warmup_days: int = 0, **more: Any) -> Setup:
    """The research lab on a small cluster."""
    lab = more.pop("generator", ResearchLab(teams=4, users=12))
    projects, shares = make_teams(lab)
    return Setup(
        hosts=hosts_make(hosts),
        projects=projects,
        shares=shares,
        generator=lab,
        days=days,
        warmup_days=warmup_days,
        **{"pass_interval_seconds": 60, **more},
    )


def run_whole(setup: Setup) -> tuple[Loop, Report]:
    """The run itself, for a look at its ledger, and its report."""
    loop = start_run(setup)
    loop.run(None)
    return loop, build_report(loop)


def philly_make(hosts: int, gpus: int, **more: Any) -> Setup:
    """The two Philly weeks; minimum runtimes drawn with seed 1, budgets by the nodes of each virtual cluster."""
    with (TRACES / "philly_2017_oct_2w.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (TRACES / "philly_vc_nodes.csv").open() as file:
        nodes = {row["vc"]: int(row["nodes_of_8_gpus"]) for row in csv.DictReader(file)}
    names = sorted({row["project_or_vc"] for row in rows})
    asked, duration, submit = (
        np.array([int(row[name]) for row in rows], dtype=np.int64) for name in ("gpus", "duration_s", "submit_time_s")
    )
    count, replicas, flags = len(rows), -(-asked // gpus), np.ones(len(rows), dtype=bool)
    number = {name: index + 1 for index, name in enumerate(names)}
    jobs = Jobs(
        id=np.arange(count, dtype=np.int64),
        project=np.array([number[row["project_or_vc"]] for row in rows], dtype=np.int64),
        user=np.zeros(count, dtype=np.int64),
        submit_at=submit,
        duration_seconds=duration,
        replicas=replicas,
        gpus_per_replica=asked // replicas,
        min_runtime_seconds=Contracts().draw_min_runtimes(asked, duration, np.random.default_rng(1)),
        resumable=flags,
        allow_unallocated=flags,
        priority=np.zeros(count, dtype=np.int64),
        checkpoint_interval_seconds=np.full(count, 1800, dtype=np.int64),
    )
    projects = (ProjectSetup("philly", NEVER), *(ProjectSetup(f"philly/{name}", 0) for name in names))
    total = sum(nodes.values())
    steps = ShareSteps(
        np.arange(1, len(names) + 1, dtype=np.int64),
        np.zeros(len(names), dtype=np.int64),
        np.array([nodes.get(name, 0) * PPM // total for name in names], dtype=np.int64),
        np.full(len(names), NEVER, dtype=np.int64),
    )
    return Setup(hosts=hosts_make(hosts, gpus), projects=projects, shares=steps, jobs=jobs, **{"days": None, **more})
