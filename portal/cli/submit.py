"""`commons submit`: a command after `--`, or a script with `#SBATCH` lines, as one workload."""

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.cli.batch import Batch, batch_read
from portal.cli.client import Client
from portal.cli.errors import UsageError
from portal.common.units import DurationError, duration_exact, duration_parse, duration_words

SCRIPT_BYTES_MAX = 1_000_000


@dataclass(frozen=True)
class Asked:
    """What the flags said; None or empty: not said."""

    script: Path | None
    argv: list[str]
    name: str | None
    project: str | None
    clusters: list[str]
    gpus: int | None
    replicas: int | None
    min_runtime: str | None
    timeout: str | None
    resumable: bool | None
    allow_unallocated: bool
    priority: int
    environment: list[str]


def body_make(asked: Asked, project_default: Callable[[], str | None]) -> tuple[dict[str, Any], list[str]]:
    """The body of the submission, and the `#SBATCH` lines that were passed over. Flags go before lines."""
    script = _script_read(asked)
    batch = batch_read(script) if script else Batch()
    project = asked.project or os.environ.get("COMMONS_PROJECT") or batch.project or project_default()
    if not project:
        raise UsageError("Name the project: --project lab/nlp, or COMMONS_PROJECT.")
    timeout = _seconds("--timeout", asked.timeout)
    body = {
        "project": project,
        "clusters": asked.clusters,
        "name": asked.name or batch.name or _name_default(asked),
        "command": asked.argv,
        "script": script,
        "replicas": _first(asked.replicas, batch.replicas, 1),
        "gpus_per_replica": _first(asked.gpus, batch.gpus_per_replica, 1),
        "min_runtime_seconds": _seconds("--min-runtime", asked.min_runtime) or 0,
        "timeout_seconds": _first(timeout, batch.timeout_seconds, None),
        "resumable": _first(asked.resumable, batch.resumable, True),
        "allow_unallocated": asked.allow_unallocated,
        "priority": asked.priority,
        "environment": _environment(asked.environment),
    }
    return body, batch.ignored


def workload_post(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """Submit once: the key makes a second try after a lost answer the same submission."""
    answer: dict[str, Any] = client.post("workloads/", body, {"Idempotency-Key": uuid.uuid4().hex}).json()
    return answer


def submitted_words(workload: dict[str, Any]) -> str:
    """The submission as it was understood, durations normalised."""
    clusters = ", ".join(workload["clusters"]) or "any cluster"
    terms = [
        f"{workload['replicas']} x {workload['gpus_per_replica']} GPUs",
        f"minimum runtime {_duration(workload['min_runtime_seconds'])}",
        f"timeout {_duration(workload['timeout_seconds'])}",
        "resumable" if workload["resumable"] else "not resumable",
    ]
    if not workload["allow_unallocated"]:
        terms.append("waits rather than run unallocated")
    if workload["priority"]:
        terms.append(f"priority {workload['priority']} (inside {workload['project']} only)")
    return f"Submitted workload {workload['id']} to {workload['project']} on {clusters}: {', '.join(terms)}."


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _script_read(asked: Asked) -> str:
    if asked.argv and asked.script is not None:
        raise UsageError("Give a script or a command after --, not both.")
    if asked.argv:
        return ""
    if asked.script is None:
        raise UsageError("Give a command after --, as in: commons submit --gpus 1 -- python train.py; or a script.")
    try:
        raw = sys.stdin.buffer.read(SCRIPT_BYTES_MAX + 1) if str(asked.script) == "-" else asked.script.read_bytes()
        script = raw.decode()
    except OSError as error:
        hint = " To run a command, put -- before it." if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"The script {asked.script} can't be read: {error.strerror}.{hint}") from None
    except UnicodeDecodeError:
        raise UsageError(f"The script {asked.script} is no text. To run a program, put -- before it.") from None
    if len(raw) > SCRIPT_BYTES_MAX:
        raise UsageError(f"The script {asked.script} is longer than {SCRIPT_BYTES_MAX} bytes.")
    if not script.strip():
        raise UsageError(f"The script {asked.script} is empty.")
    return script


def _name_default(asked: Asked) -> str:
    if asked.argv:
        return " ".join(Path(word).name or word for word in asked.argv[:2])[:200]
    return asked.script.name if asked.script and str(asked.script) != "-" else "script"


def _seconds(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return duration_parse(text)
    except DurationError as error:
        raise UsageError(f"{flag}: {error}.") from None


def _environment(pairs: list[str]) -> dict[str, str]:
    """`NAME=value`, or `NAME` alone for the value that it has here."""
    environment = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: there is no such variable here; write {name}=value.")
        environment[name] = value if equals else os.environ[name]
    return environment


def _duration(seconds: int | None) -> str:
    return "none" if seconds is None else f"{duration_words(seconds)} ({duration_exact(seconds)})"
