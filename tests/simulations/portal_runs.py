"""Scenarios and runs for tests of simulations in the portal."""

import json
from datetime import timedelta
from functools import cache
from typing import Any

from portal.clusters.models import Cluster, Host
from portal.projects.models import User
from portal.simulations.models import Run, Source
from portal.simulations.scenario import build, read_scenario
from portal.simulations.services import run_request
from portal.simulations.traces.reading import read_trace
from scheduler.simulation import engine
from tests.factories import START, attempt_make, budget_make, cluster_make, host_make, project_make, workload_make

TINY: dict[str, Any] = {
    "clusters": [{"name": "tiny", "hosts": 2, "gpus_per_host": 8}],
    "projects": [
        {"path": "lab/nlp", "cluster": "tiny", "share_percent": 60},
        {"path": "lab/vision", "cluster": "tiny", "share_percent": 40},
    ],
    "days": 1,
}
"""Two hosts for a day; its work comes with a trace."""
HALVES: dict[str, Any] = {**TINY, "projects": [{**line, "share_percent": 50} for line in TINY["projects"]]}
TINY_TRACE = b"""job_id,user,project,submit_time_s,duration_s,gpus
1,ada,lab/nlp,0,3600,8
2,ada,lab/nlp,60,3600,4
3,ben,lab/vision,120,7200,8
4,ben,lab/vision,180,600,1
"""
GENERATED: dict[str, Any] = {
    "clusters": [{"name": "gen", "hosts": 4, "gpus_per_host": 8}],
    "projects": [],
    "workload": {"generator": "research-lab", "seed": 3},
    "warmup_days": 0,
    "days": 1,
}
LAST = START + timedelta(days=2)
"""The end of the history that `lab_make` makes."""


def lab_make() -> tuple[Cluster, Host]:
    """lab/nlp with 60 % and lab/vision with 30 % of one host; three workloads ran in the two days after START."""
    cluster = cluster_make("local")
    host = host_make(cluster=cluster, name="gpu-01")
    nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 60, "vision": 30})
    for project, hour, hours in ((nlp, 1, 2), (nlp, 5, 1), (vision, 30, 3)):
        submitted = START + timedelta(hours=hour)
        workload = workload_make(
            project=project, cluster=cluster, gpus_per_replica=2, min_runtime_seconds=600, submitted_at=submitted
        )
        ended = submitted + timedelta(hours=hours)
        attempt_make(workload=workload, hosts=[host], state="ended", outcome="succeeded", ended_at=ended)
        type(workload).objects.filter(pk=workload.pk).update(state="succeeded", ended_at=ended)
    return cluster, host


def run_make(*, author: User | None = None, **fields: Any) -> Run:
    """A queued run of the generator."""
    given: dict[str, Any] = {
        "cluster": None,
        "scenario": GENERATED,
        "title": "What if",
        "author": author,
        "now": START,
        "source": Source.GENERATOR,
        **fields,
    }
    return run_request(**given)


def report_make(**fields: Any) -> dict[str, Any]:
    """A report as the engine makes one, of two projects below lab: really simulated, once."""
    return {**_reported(), **fields}


@cache
def _simulated() -> str:
    lines = [{**line, "cluster": "gen"} for line in TINY["projects"]]
    scenario = {**TINY, "clusters": [{**TINY["clusters"][0], "name": "gen"}], "projects": lines}
    (built,) = build(read_scenario(scenario), read_trace(TINY_TRACE, name="tiny.csv"))
    report = engine.run(built.setup).to_dict()
    return json.dumps({"cluster": "gen", **report, "wall_s": 0.5, "jobs_per_s": 8.0, "others": []})


def _reported() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(_simulated())
    return made
