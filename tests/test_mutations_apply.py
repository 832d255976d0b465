"""The script that breaks each rule on purpose must not rot: what it replaces is still there."""

from pathlib import Path

import pytest

from tests.mutants import MUTANTS
from tests.mutants.mutant import RULES, Mutant
from tests.mutations import ROOT, find_problem


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.rule}: {one.breaks}")
def test_what_a_mutant_replaces_occurs_exactly_once(mutant: Mutant) -> None:
    assert find_problem(ROOT, mutant) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.rule}: {one.breaks}")
def test_a_mutant_changes_code_that_still_compiles_and_names_tests_that_exist(mutant: Mutant) -> None:
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    changed = text.replace(mutant.old, mutant.new)
    assert changed != text
    compile(changed, mutant.path, "exec")
    assert all((ROOT / test).is_file() for test in mutant.tests)


def test_every_rule_is_broken_by_some_mutant() -> None:
    assert {one.rule for one in MUTANTS} == set(RULES)


@pytest.mark.parametrize(("text", "times"), [("", 0), ("a = 1\na = 1\n", 2)])
def test_text_that_is_missing_or_there_twice_is_a_problem(tmp_path: Path, text: str, times: int) -> None:
    (tmp_path / "file.py").write_text(text, encoding="utf-8")
    problem = find_problem(tmp_path, Mutant("R1", "", "file.py", "a = 1", "a = 2", ()))
    assert problem == f"its text occurs {times} times in file.py, not once"
