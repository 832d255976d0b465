"""The worked examples of docs/explanation/scheduling.md happen as the page says, and its picture tells the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scheduler import events
from scheduler.types import NEVER, Reserve, Standing, Start
from tests.scheduler.world import DAY, HOUR, T0, World, balance_of, preempted, wait_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "scheduling.md").read_text(encoding="utf-8")
Row = dict[str, str]


def read_table(name: str) -> list[Row]:
    """The rows of the table that follows the example's mark, by the words of their columns."""
    lines = PAGE.split(f"<!-- example: {name} -->\n")[1].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(cells) > 2, f"the example {name} has no rows"
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def number(text: str) -> float:
    """The first number of a cell."""
    return float(re.findall(r"-?[\d.]+", text.replace(",", ""))[0])


def seconds(text: str) -> int:
    """1:30, 4 h, 15 min."""
    if ":" in text:
        hours, minutes = text.split(":")
        return int(hours) * HOUR + int(minutes) * 60
    return int(number(text) * (60 if "min" in text else HOUR))


def shown(value: Any) -> str:
    """A row's name."""
    return "-".join(value.values()) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("row", read_table("balance"), ids=shown)
def test_balances(row: Row) -> None:
    world = World(hosts=8)
    world.project("nlp", number(row["share"]))
    world.charge("nlp", int(number(row["charged in the window, GPU-hours"]) * HOUR), ago=HOUR)
    contracts = int(number(row["contracts yet to run, GPU-hours"]))
    if contracts:
        world.run("nlp", gpus=8, contract=contracts * HOUR // 8)
    balance = balance_of(world, "nlp").balance_ppm
    assert balance is not None
    assert balance // 10_000 == int(number(row["balance"]))


def build_at(gpus: int, hosts: int, percent: float, **balances: float) -> World:
    """Projects whose balances are as told, by what they were charged."""
    world = World(hosts=hosts, gpus=gpus)
    for name in balances:
        world.project(name, percent)
    for name, balance in balances.items():
        quota = gpus * hosts * 7 * DAY * percent / 100
        world.charge(name, round(quota * (100 - balance) / 100), ago=DAY)
    return world


@pytest.mark.parametrize("row", read_table("funding"), ids=shown)
def test_who_is_funded(row: Row) -> None:
    world = build_at(8, 1, 50, nlp=number(row["balance"]))
    free = row["may run unallocated"] == "yes"
    workload = world.submit(
        "nlp",
        gpus=int(number(row["GPUs"])),
        contract=seconds(row["minimum runtime"]),
        first_start=row["first start"] == "yes",
        allow_unallocated=free,
    )
    decision = world.go()
    starts = [action for action in decision.actions if isinstance(action, Start)]
    if row["what happens"].startswith("waits"):
        assert row["what happens"] == f"waits: {wait_of(decision, workload).code}"
    elif row["what happens"] == "starts express":
        # Where the balance funds it too it makes no difference; here it does not.
        assert [start.express for start in starts] == [True]
    else:
        assert [start.standing.name.lower() for start in starts] == [row["what happens"].split()[1]]


@pytest.mark.parametrize("row", read_table("licence"), ids=shown)
def test_who_may_take_funded_work(row: Row) -> None:
    balances = {name: number(row[f"balance of {name}"]) for name in ("nlp", "vision")}
    world = build_at(8, 8, 25, **balances)
    victims = [
        world.run("vision", gpus=8, contract=HOUR, ran=HOUR, standing=Standing.FUNDED, on={host: 1}, segment_at=T0)
        for host in range(8)
    ]
    asked, length = row["it asks for"].split(" for ")
    replicas = max(int(number(asked)) // 8, 1)
    world.submit("nlp", gpus=8, replicas=replicas, contract=seconds(length), first_start=False)
    assert len(preempted(world.go())) == (replicas if row["what happens"] == "takes" else 0)
    assert len(victims) == 8


@pytest.mark.parametrize("row", read_table("reservation"), ids=shown)
def test_times_of_reservations(row: Row) -> None:
    world = build_at(8, 3, 40, nlp=100, vision=-20)
    for host, left in enumerate(row["time left on the hosts"].split(", ")):
        world.run("vision", gpus=8, contract=seconds(left) + 60, ran=60, on={host: 1})
    replicas = int(number(row["gang"].split("×")[0]))
    world.submit("nlp", gpus=8, replicas=replicas, contract=2 * HOUR)
    made = next(action for action in world.go().actions if isinstance(action, Reserve))
    assert made.at == T0 + seconds(row["reserved for"])
    assert made.reason.as_dict()["starts_by_at"] == T0 + seconds(row["starts by"])


# ---------------------------------------------------------------- a workload's life


def live() -> dict[int, tuple[str, int]]:
    """(standing, balance in ppm) of nlp's workload by the seconds since its submission, at each pass."""
    world = World(hosts=1, gpus=8, lookback_seconds=DAY)
    for name in ("nlp", "vision"):
        world.project(name, 50)
    path = world.state.path_number(world.names["nlp"])
    charged = {"path": path, "author": 1, "start_at": T0 - 20 * HOUR, "end_at": T0 - 11 * HOUR, "gpus": 8}
    world.state.charged.add(charged)
    workload = world.submit("nlp", gpus=8, contract=2 * HOUR)
    told = {}
    other = NEVER
    while world.now <= T0 + 10 * HOUR:
        if world.now == T0 + 6 * HOUR:
            other = world.submit("vision", gpus=8, contract=HOUR)
        end_if_done(world, other)
        world.free_stopped()
        world.go()
        world.start_all()
        told[world.now - T0] = standing_now(world, workload), balance_of(world, "nlp").balance_ppm or 0
        world.wait(600)
    return told


def end_if_done(world: World, workload: int) -> None:
    """vision's workload ends when its hour is over."""
    attempts = world.state.attempts
    for attempt in attempts["id"][attempts["workload"] == workload].tolist():
        row = attempts.row(attempts.find("id", attempt))
        if row["running_at"] != NEVER and world.now >= row["running_at"] + row["contract_seconds"]:
            events.end(world.state, attempt)


def standing_now(world: World, workload: int) -> str:
    """Of the workload's attempt; waiting if it has none."""
    if workload in world.state.pending["id"]:
        return "waiting"
    return Standing(world.attempt_of(workload)["standing"]).name.lower()


def test_a_workloads_life_goes_as_the_table_says() -> None:
    lived = live()
    for row in read_table("life"):
        standing, balance = lived[seconds(row["time"])]
        assert (row["time"], standing) == (row["time"], row["standing"])
        assert balance / 10_000 == pytest.approx(number(row["balance of nlp"]), abs=0.1)


def test_the_picture_shows_the_standings_of_the_table() -> None:
    picture = (DOCS / "images" / "standings.svg").read_text(encoding="utf-8")
    for row in read_table("life"):
        assert row["standing"] in picture
    assert "prefers-color-scheme: dark" in picture
    assert "<title" in picture
