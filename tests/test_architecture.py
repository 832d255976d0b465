"""The walls of the house: who may import whom. Read from the source, so nothing has to run for them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
APPS = (
    "common",
    "projects",
    "clusters",
    "budgets",
    "workloads",
    "usage",
    "scheduling",
    "simulations",
    "proposals",
    "dashboard",
)
APART = ("agent", "cli", "launcher")
DJANGO_FREE_COMMON = ("portal.common.units", "portal.common.messages")
SCHEDULER_USERS = ("portal.usage", "portal.scheduling", "portal.simulations", "tests", "benchmarks")
FORBIDDEN_TO_SCHEDULER = {
    "asyncio",
    "datetime",
    "logging",
    "os",
    "pathlib",
    "random",
    "socket",
    "subprocess",
    "threading",
    "time",
}
# A layer imports those before it and itself; what is not listed (errors, units, charts) is free of this rule.
LAYERS = ("models", "selectors", "services")
OUTER = ("forms", "serializers", "views", "apis", "tasks", "admin", "management", "urls")
# Places that may read the clock; all others are told `now`.
CLOCK_READERS = (
    "views",
    "apis",
    "tasks",
    "admin",
    "management",
    "admin",
    "authentication",
    "receiver",
    "dashboard",
    *APART,
)
LONGEST_FILE_LINES = 400
LONGEST_FUNCTION_LINES = 60


def sources(*folders: str) -> list[Path]:
    """Every Python file below the folders, migrations left out: they are written by Django."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts]


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function; `from a import b` as `a.b`."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of the packages or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def app_of(name: str) -> str | None:
    """`usage` of `portal.usage.selectors`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "portal" else None


def layer_of(name: str) -> str | None:
    """`services` of `portal.usage.services`; None for what is in no layer."""
    parts = name.split(".")
    known = LAYERS + OUTER
    return parts[2] if len(parts) > 2 and parts[2] in known else None


@pytest.mark.parametrize("path", sources("scheduler"), ids=module_of)
def test_the_scheduler_imports_only_pure_things(path):
    for name in imports(path):
        top = name.partition(".")[0]
        assert top not in FORBIDDEN_TO_SCHEDULER, f"{module_of(path)} imports {name}"
        assert top in {"scheduler", "numpy"} or top in sys.stdlib_module_names, f"{module_of(path)} imports {name}"


def test_only_usage_scheduling_and_simulations_import_the_scheduler():
    for path in sources("portal", "tests", "benchmarks"):
        module = module_of(path)
        if not within(module, *SCHEDULER_USERS):
            assert not any(within(name, "scheduler") for name in imports(path)), f"{module} imports the scheduler"


@pytest.mark.parametrize("part", APART)
def test_what_stands_apart_imports_only_itself_units_and_messages(part):
    for path in sources(f"portal/{part}"):
        for name in imports(path):
            if within(name, "portal"):
                allowed = within(name, f"portal.{part}", *DJANGO_FREE_COMMON)
                by_package = name in {"portal.common.units", "portal.common.messages"}
                assert allowed or by_package, f"{module_of(path)} imports {name}"


@pytest.mark.parametrize("package", ["portal", "portal.common"])
def test_the_package_files_are_empty(package):
    assert (ROOT / package.replace(".", "/") / "__init__.py").read_text().strip() == ""


ENTRY_POINTS = ("portal.agent.__main__", "portal.cli.main", "portal.launcher.launch")


@pytest.mark.parametrize("module", [*ENTRY_POINTS, *DJANGO_FREE_COMMON])
def test_importing_it_leaves_django_out(module):
    code = f"import sys, {module}; sys.exit('django' in sys.modules or 'portal.settings' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_importing_the_scheduler_leaves_everything_else_out():
    code = "import sys, scheduler.decide; sys.exit(any(n.split('.')[0] in ('django', 'portal') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("app", APPS)
def test_an_app_imports_only_apps_before_it(app):
    later = APPS[APPS.index(app) + 1 :] + ("agent", "cli")
    for path in sources(f"portal/{app}"):
        for name in imports(path):
            assert app_of(name) not in later, f"{module_of(path)} imports {name}"


@pytest.mark.parametrize("app", APPS)
def test_layers_of_an_app_point_inward(app):
    for path in sources(f"portal/{app}"):
        module = module_of(path)
        layer = layer_of(module)
        if layer is None:
            continue
        outer = OUTER if layer not in LAYERS else LAYERS[LAYERS.index(layer) + 1 :] + OUTER
        for name in imports(path):
            if within(name, f"portal.{app}") and layer in LAYERS:
                assert layer_of(name) not in outer, f"{module} imports {name}"


def reads_the_clock(path: Path) -> bool:
    """Whether `timezone.now`, `datetime.now` or `time.time` is called or handed on."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = (node.value.id, node.attr)
            if names in {("timezone", "now"), ("datetime", "now"), ("time", "time")}:
                return True
    return False


@pytest.mark.parametrize("path", sources("portal", "scheduler"), ids=module_of)
def test_the_clock_is_read_only_in_the_outer_ring(path):
    parts = module_of(path).split(".")
    if not set(parts) & set(CLOCK_READERS):
        assert not reads_the_clock(path), f"{module_of(path)} reads the clock; take now= instead"


@pytest.mark.parametrize("path", sources("portal", "scheduler", "benchmarks"), ids=module_of)
def test_files_and_functions_stay_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION_LINES, f"{module_of(path)}.{node.name} has {length} lines"


def test_no_committed_file_names_a_registry():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        if name.startswith("requirements/"):
            text = (ROOT / name).read_text()
            assert "://" not in text.replace('"://" in link', ""), f"{name} holds an address"
