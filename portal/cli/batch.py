"""`#SBATCH` lines of a script: those that mean something here, and those that are passed over, by name.

Slurm's own rules: the lines stand before the first command, options may be long (`--time=1:00:00`, `--time 1:00:00`)
or short (`-t 60`), and a bare `--time` counts minutes. `--gpus` counts the whole job, `--gres` and `--gpus-per-node`
a node.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from portal.cli.errors import UsageError
from portal.common.units import DurationError, duration_parse

SHORT = {
    "-J": "job-name", "-N": "nodes", "-n": "ntasks", "-t": "time", "-G": "gpus", "-A": "account", "-p": "partition",
    "-o": "output", "-e": "error", "-c": "cpus-per-task", "-D": "chdir", "-a": "array", "-d": "dependency",
    "-w": "nodelist", "-x": "exclude", "-C": "constraint", "-q": "qos", "-L": "licenses", "-M": "clusters",
}  # fmt: skip
WITHOUT_VALUE = {
    "requeue",
    "no-requeue",
    "exclusive",
    "overcommit",
    "hold",
    "contiguous",
    "wait",
    "parsable",
    "test-only",
}
UNLIMITED = {"0", "unlimited", "infinite", "-1"}
_GPU_COUNT = re.compile(r"^(?:[A-Za-z][\w.-]*:)?(\d+)$")


@dataclass
class Batch:
    """What a script's `#SBATCH` lines ask for; None: not said. `ignored` holds the lines passed over, with why."""

    name: str | None = None
    project: str | None = None
    replicas: int | None = None
    gpus_per_replica: int | None = None
    timeout_seconds: int | None = None
    resumable: bool | None = None
    ignored: list[str] = field(default_factory=list)


def batch_read(script: str) -> Batch:
    """Read the `#SBATCH` lines of a script."""
    batch = Batch()
    asked: dict[str, str] = {}
    for name, value in _options(script):
        if name in _SIMPLE:
            _SIMPLE[name](batch, value)
        elif name in _SIZES:
            asked[name] = value
        else:
            batch.ignored.append(f"--{name}{'=' + value if value else ''}")
    _size_settle(batch, asked)
    return batch


def _options(script: str) -> Iterator[tuple[str, str]]:
    for line in script.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            yield from _line_options(line.removeprefix("#SBATCH"))


def _line_options(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise UsageError(f"#SBATCH{text}: {error}.") from None
    while words:
        word = words.pop(0)
        name, glued, value = _option_split(word)
        if not glued and name not in WITHOUT_VALUE and words and not words[0].startswith("-"):
            value = words.pop(0)
        yield name, value


def _option_split(word: str) -> tuple[str, bool, str]:
    """Name, whether a value was glued to it, and that value."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return name, bool(equals), value
    short, rest = word[:2], word[2:]
    return SHORT.get(short, short.lstrip("-") or word), bool(rest), rest.removeprefix("=")


def _name_take(batch: Batch, value: str) -> None:
    batch.name = value


def _project_take(batch: Batch, value: str) -> None:
    batch.project = value


def _time_take(batch: Batch, value: str) -> None:
    if value.lower() in UNLIMITED:
        return
    minutes = re.fullmatch(r"\d{1,9}", value)
    try:
        batch.timeout_seconds = int(value) * 60 if minutes else duration_parse(value)
    except DurationError as error:
        raise UsageError(f"#SBATCH --time: {error}.") from None


def _requeue_take(batch: Batch, _: str) -> None:
    batch.resumable = True


def _no_requeue_take(batch: Batch, _: str) -> None:
    batch.resumable = False


_SIMPLE = {
    "job-name": _name_take,
    "account": _project_take,
    "time": _time_take,
    "requeue": _requeue_take,
    "no-requeue": _no_requeue_take,
}
_SIZES = {"nodes", "ntasks", "gpus", "gpus-per-node", "gpus-per-task", "gres"}


def _size_settle(batch: Batch, asked: dict[str, str]) -> None:
    """Replicas and GPUs of each, from the several ways in which Slurm lets one say them."""
    nodes = _count(asked, "nodes")
    tasks = _count(asked, "ntasks")
    per_node = _gpu_count(asked, "gpus-per-node")
    if per_node is None:
        per_node = _gres_gpus(batch, asked)
    per_task = _gpu_count(asked, "gpus-per-task")
    total = _gpu_count(asked, "gpus")
    if per_node is None and per_task is not None:
        batch.replicas, batch.gpus_per_replica = _by_task(nodes, tasks, per_task)
        return
    batch.replicas = nodes
    if per_node is not None:
        batch.gpus_per_replica = per_node
    elif total is not None:
        batch.gpus_per_replica = _divided(total, nodes or 1, "nodes")
    if tasks is not None:
        batch.ignored.append(f"--ntasks={tasks} (one process a replica is started; replicas are nodes here)")


def _by_task(nodes: int | None, tasks: int | None, per_task: int) -> tuple[int | None, int]:
    """With GPUs per task: a replica is a node with its tasks' GPUs, or a task where nodes aren't named."""
    if nodes is None:
        return tasks, per_task
    return nodes, per_task * _divided(tasks or nodes, nodes, "nodes")


def _divided(total: int, parts: int, name: str) -> int:
    if total % parts:
        raise UsageError(f"#SBATCH: {total} can't be divided evenly by {parts} {name}: replicas are all of one size.")
    return total // parts


def _count(asked: dict[str, str], name: str) -> int | None:
    value = asked.get(name)
    if value is None:
        return None
    low, _, high = value.partition("-")
    if not re.fullmatch(r"[1-9]\d{0,5}", low) or (high and high != low):
        raise UsageError(f"#SBATCH --{name}={value}: must be one whole number, because a gang has a fixed size.")
    return int(low)


def _gpu_count(asked: dict[str, str], name: str) -> int | None:
    value = asked.get(name)
    if value is None:
        return None
    match = _GPU_COUNT.fullmatch(value)
    if match is None or int(match[1]) < 1:
        raise UsageError(f"#SBATCH --{name}={value}: must be a number of GPUs, as 8 or h100:8.")
    return int(match[1])


def _gres_gpus(batch: Batch, asked: dict[str, str]) -> int | None:
    gpus = None
    for part in filter(None, asked.get("gres", "").split(",")):
        kind, _, rest = part.removeprefix("gres/").partition(":")
        if kind == "gpu":
            gpus = _gpu_count({"gres": rest or "1"}, "gres")
        else:
            batch.ignored.append(f"--gres={part}")
    return gpus
