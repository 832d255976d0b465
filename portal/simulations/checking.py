"""Whether a scenario can be simulated here, before it is queued: its shape, its sense, and how large it is."""

from typing import Any

from django.conf import settings

from portal.common.errors import FieldError
from portal.simulations.models import Source
from portal.simulations.scenario import (
    GENERATED_DAYS,
    GENERATED_WARMUP_DAYS,
    Scenario,
    ScenarioRefused,
    read_scenario,
)

PROBLEMS_SHOWN = 20


def scenario_problems(scenario: Any, *, source: str) -> list[FieldError]:
    """What is wrong with it, each with its place in the scenario."""
    try:
        read = read_scenario(scenario)
    except ScenarioRefused as refusal:
        found = [f"{place}: {words}" if place else words for place, words in refusal.problems[:PROBLEMS_SHOWN]]
        return [FieldError("scenario", "invalid", sentence) for sentence in found]
    if source == Source.GENERATOR and read.generator is None:
        words = 'workload: the source generator needs {"generator": "research-lab"}.'
        return [FieldError("scenario", "invalid", words)]
    return size_problems(read, days=days_of(read))


def size_problems(scenario: Scenario, *, days: int) -> list[FieldError]:
    """Refused above so many hosts times days."""
    hosts, most = sum(cluster.hosts for cluster in scenario.clusters), settings.SIMULATION_HOST_DAYS
    if hosts * days <= most:
        return []
    words = (
        f"days: {hosts:,} hosts over {days:,} days are {hosts * days:,} host-days; a simulation has at most {most:,}."
    )
    return [FieldError("scenario", "too_large", words)]


def days_of(scenario: Scenario) -> int:
    """Simulated days, warm-up included; 0 where the trace says how many."""
    if scenario.days is None and scenario.generator is None:
        return 0
    days = GENERATED_DAYS if scenario.days is None else scenario.days
    usual_warmup = 0 if scenario.generator is None else GENERATED_WARMUP_DAYS
    return days + (usual_warmup if scenario.warmup_days is None else scenario.warmup_days)


def storable(text: str) -> bool:
    """Whether a database can hold it: no NUL, no half of a pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
