"""The compiled scheduler answers as its text does; an old, half or missing build answers nothing."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from portal.simulations import compiled, compiling
from portal.simulations.compiled import LISTED, MYPY, SOURCE, build_folder, builds_folder, compiled_use, is_stale
from portal.simulations.compiling import CANT_COMPILE, KEPT_SECONDS, RUN, CantCompile, compiled_build

DEADLINE_SECONDS = 300
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def python(*words: str, compiled: str = "1") -> str:
    """What a process of its own prints."""
    command, environment = [sys.executable, *words], {**os.environ, "SIMULATION_COMPILED": compiled}
    done = subprocess.run(
        command, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def tiny(tmp_path: Path, compiler: None) -> Path:
    """A source whose scheduler compiles in seconds."""
    return tiny_make(tmp_path)


def tiny_make(source: Path) -> Path:
    """There."""
    simulation = source / "scheduler" / "simulation"
    simulation.mkdir(parents=True)
    for path in (simulation.parent / "__init__.py", simulation / "__init__.py"):
        path.write_text("")
    for name in RUN:
        (simulation / f"{name}.py").write_text("")
    (simulation.parent / "decide.py").write_text("ANSWER: int = 1\n")
    return source


@pytest.fixture(scope="module")
def tiny_build(tmp_path_factory: pytest.TempPathFactory, compiler: None) -> Path:
    """The same with its build, made once."""
    source = tiny_make(tmp_path_factory.mktemp("tiny"))
    compiled_build(source)
    return source


@pytest.fixture
def built(tiny_build: Path, tmp_path: Path) -> Path:
    """A copy of it: a build goes where its text goes."""
    return Path(shutil.copytree(tiny_build, tmp_path / "built"))


def answer_of(source: Path, compiled: str = "1") -> list[str]:
    """The answer of a tiny scheduler, and the file that gave it."""
    code = (
        "import sys; from pathlib import Path; from portal.simulations.compiled import compiled_use; "
        "source = Path(sys.argv[1]); sys.path.insert(0, str(source)); compiled_use(source); "
        "import scheduler.decide as d; print(d.ANSWER, Path(d.__file__).relative_to(source), sep='\\n')"
    )
    return python("-c", code, str(source), compiled=compiled).splitlines()


# ------------------------------------------------ the same answers


@pytest.fixture(scope="module")
def both(compiled_scheduler: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same runs by the build and by the text."""
    by_build, by_text = (
        json.loads(python("-m", "tests.simulations.compiled_runs", compiled=flag)) for flag in ("1", "0")
    )
    assert by_build["decides"] == str(compiled_scheduler / "scheduler" / f"decide{SUFFIX}")
    assert by_text["decides"] == str(SOURCE / "scheduler" / "decide.py")
    return by_build["answers"], by_text["answers"]


def test_reports_are_the_same_compiled_and_as_text(both):
    by_build, by_text = both
    assert list(by_build) == list(by_text)
    assert [name for name in by_text if json.dumps(by_build[name]) != json.dumps(by_text[name])] == []


def test_what_is_refused_broken_or_cancelled_is_so_in_the_same_words(both):
    by_build, _ = both
    words = {name: by_build[name] for name in ("refused", "broken", "more than there is", "cancelled")}
    assert words == {
        "refused": ["scheduler.simulation.setup", "SetupRefused", "Job 0 names a project that isn't there."],
        "broken": ["scheduler.types", "InvariantBroken", "1: workload 0 starts 2 times"],
        "more than there is": ["scheduler.types", "InvariantBroken", "host 0 has 1 GPUs occupied of 0"],
        "cancelled": ["scheduler.simulation.loop", "Cancelled", ""],
    }


def loaded(*words: str, compiled: str) -> bool:
    """Whether a command of manage.py loads the build: Python says what it imports."""
    command = [sys.executable, "-v", str(SOURCE / "manage.py"), *words]
    environment = {**os.environ, "SIMULATION_COMPILED": compiled}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "import 'scheduler'" in done.stderr
    return f"{build_folder()}/scheduler/policy." in done.stderr


@pytest.mark.parametrize("compiled", ["0", "1"])
def test_simulate_runs_the_build_unless_it_is_told_not_to(compiled_scheduler, compiled):
    scenario = SOURCE / "docs" / "scenarios" / "small_lab.json"
    trace = SOURCE / "examples" / "traces" / "small_lab.csv"
    assert loaded("simulate", str(scenario), "--trace", str(trace), compiled=compiled) == (compiled == "1")


def test_every_other_command_runs_the_text(compiled_scheduler):
    assert not loaded("check", compiled="1")


# ------------------------------------------------ builds


def test_a_changed_text_is_not_answered_by_the_build_of_another(built):
    assert answer_of(built) == ["1", str(build_folder(built).relative_to(built) / f"scheduler/decide{SUFFIX}")]
    assert answer_of(built, compiled="0") == ["1", "scheduler/decide.py"]
    assert not is_stale(built)
    (built / "scheduler" / "decide.py").write_text("ANSWER: int = 2\n")
    assert answer_of(built) == ["2", "scheduler/decide.py"]
    assert is_stale(built)


@pytest.mark.parametrize("what", ["MYPY", "LEVEL", "SETTINGS"])
def test_another_compiler_or_setting_makes_another_build(monkeypatch, what):
    before = build_folder()
    monkeypatch.setattr(compiled, what, "another")
    assert build_folder() != before


def test_another_interpreter_has_another_build(monkeypatch):
    before = build_folder()
    monkeypatch.setattr(compiled.sysconfig, "get_config_var", lambda name: ".cpython-399-x86_64-linux-gnu.so")
    assert build_folder() != before


def test_what_was_left_half_way_is_not_used_and_goes_when_it_is_old(tiny):
    builds = builds_folder(tiny)
    for name, age in ((".making-old", 2 * KEPT_SECONDS), (".making-new", 0), ("0123456789abcdef", 2 * KEPT_SECONDS)):
        (builds / name / "scheduler").mkdir(parents=True)
        written = tiny.stat().st_mtime - age
        os.utime(builds / name, (written, written))
    assert answer_of(tiny)[1] == "scheduler/decide.py"
    build = compiled_build(tiny)
    assert sorted(path.name for path in builds.iterdir()) == sorted([".making-new", build.name])


def test_a_compiler_that_refuses_leaves_nothing_and_its_words(tiny):
    (tiny / "scheduler" / "decide.py").write_text("ANSWER: int = 'one'\n")
    with pytest.raises(CantCompile, match=r"scheduler/decide.py:1: error: Incompatible types in assignment"):
        compiled_build(tiny)
    assert list(builds_folder(tiny).iterdir()) == []


def test_two_at_once_both_have_the_whole_build(tiny):
    with ThreadPoolExecutor(2) as two:
        first, second = two.map(compiled_build, [tiny, tiny])
    assert first == second == build_folder(tiny)
    assert list(builds_folder(tiny).iterdir()) == [first]
    assert answer_of(tiny)[1].endswith(SUFFIX)


@pytest.mark.parametrize("damage", ["truncated", "missing", "unreadable", "unlisted"])
def test_a_damaged_build_is_told_and_not_used_and_made_again(built, damage):
    build = build_folder(built)
    library = build / "scheduler" / f"decide{SUFFIX}"
    if damage == "truncated":
        os.truncate(library, 0)
    elif damage == "missing":
        library.unlink()
    elif damage == "unreadable":
        library.unlink()
        library.symlink_to(library)
    else:
        (build / LISTED).unlink()
    assert answer_of(built) == ["1", "scheduler/decide.py"]
    assert compiled_build(built) == build
    assert answer_of(built)[1].endswith(SUFFIX)
    assert list(builds_folder(built).iterdir()) == [build]


@pytest.mark.parametrize("kind", ["a file", "a link to itself"])
def test_where_builds_would_go_there_is_something_else(tiny, monkeypatch, capsys, kind):
    builds = builds_folder(tiny)
    builds.write_text("") if kind == "a file" else builds.symlink_to(builds)
    assert answer_of(tiny) == ["1", "scheduler/decide.py"]
    monkeypatch.setattr(compiling, "build_folder", lambda source=tiny: build_folder(source))
    monkeypatch.setattr(compiling, "compiled_build", lambda: compiled_build(tiny))
    assert compiling.main() == CANT_COMPILE
    assert re.search(r"make compiled: .*\.compiled: \w", capsys.readouterr().err)


def test_the_lock_of_an_editor_is_no_text(built):
    before = build_folder(built)
    (built / "scheduler" / ".#decide.py").symlink_to("somebody@host.1:2")
    assert build_folder(built) == before


def test_a_build_that_is_there_is_made_by_nobody(built, monkeypatch):
    monkeypatch.setattr(compiling, "find_missing", lambda: "everything is missing")
    assert compiled_build(built) == build_folder(built)


def test_the_build_is_chosen_before_the_text_is_imported(built):
    import scheduler  # noqa: F401 - what is to be refused

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATION_COMPILED", "1")
        with pytest.raises(RuntimeError, match="imported already"):
            compiled_use(built)


def test_a_missing_compiler_is_named_with_how_to_get_it(tiny, monkeypatch):
    monkeypatch.setattr(compiling.shutil, "which", lambda name: None)
    with pytest.raises(CantCompile, match="the C compiler .* was not found; on Debian, as root: apt-get install gcc"):
        compiled_build(tiny)


def test_missing_headers_are_named_with_how_to_get_them(tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(compiling.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(CantCompile, match=r"Python's headers \(Python.h\) .* apt-get install python3-dev"):
        compiled_build(tiny)


def test_another_mypy_is_refused_and_the_pinned_one_is_the_one_we_name(tiny, monkeypatch):
    pinned = (SOURCE / "requirements" / "compiler.txt").read_text()
    assert re.findall(r"^mypy==(\S+)", pinned, re.MULTILINE) == [MYPY] == [importlib.metadata.version("mypy")]
    monkeypatch.setattr(compiling, "MYPY", "0.1")
    with pytest.raises(CantCompile, match="mypy 0.1 and setuptools are not installed .* make setup"):
        compiled_build(tiny)


@pytest.mark.parametrize("name", RUN)
def test_what_is_compiled_of_the_simulation_is_there(name):
    assert (SOURCE / "scheduler" / "simulation" / f"{name}.py").is_file()
