"""What a submission may say: each wrong field gets its own complaint, with its bound, all together."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from portal.common.errors import FieldError
from portal.common.units import DURATION_MAX_SECONDS, duration_words

NAME_LENGTH_MAX = 200
COMMAND_WORDS_MAX = 1000
COMMAND_BYTES_MAX = 65_536
SCRIPT_BYTES_MAX = 262_144
ENVIRONMENT_NAMES_MAX = 200
ENVIRONMENT_BYTES_MAX = 65_536
REPLICAS_MAX = 10_000
GPUS_PER_REPLICA_MAX = 1_048_576
PRIORITY_LEAST, PRIORITY_MOST = -1000, 1000
KEY_LENGTH_MAX = 200
RESERVED_PREFIX = "COMMONS_"
RESERVED_NAMES = {"CUDA_VISIBLE_DEVICES"}

_POSIX_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def fields_problems(body: dict[str, Any]) -> list[FieldError]:
    """Every complaint about the fields of a submission that needs no database."""
    problems = [problem for check in _CHECKS for problem in check(body)]
    return problems


def _text_problem(value: Any, *, bytes_max: int) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    if "\0" in value:
        return "may not contain a NUL byte"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "must be valid Unicode text"
    return f"may have at most {bytes_max} bytes" if size > bytes_max else None


def _name(body: dict[str, Any]) -> list[FieldError]:
    name = body["name"]
    problem = _text_problem(name, bytes_max=4 * NAME_LENGTH_MAX)
    if problem is None and len(name) > NAME_LENGTH_MAX:
        problem = f"may have at most {NAME_LENGTH_MAX} characters"
    return [FieldError("name", "invalid", f"The name {problem}.")] if problem else []


def _command_or_script(body: dict[str, Any]) -> list[FieldError]:
    command, script = body["command"], body["script"]
    if command and script:
        return [FieldError("command", "invalid", "Give a command or a script, not both.")]
    if script:
        problem = _text_problem(script, bytes_max=SCRIPT_BYTES_MAX)
        return [FieldError("script", "invalid", f"The script {problem}.")] if problem else []
    if not command:
        return [FieldError("command", "required", "A workload needs a command or a script.")]
    return _command_problems(command)


def _command_problems(command: Any) -> list[FieldError]:
    if not isinstance(command, Sequence) or isinstance(command, str | bytes):
        return [FieldError("command", "invalid", 'The command must be a list of words, like ["python", "train.py"].')]
    if len(command) > COMMAND_WORDS_MAX:
        return [FieldError("command", "invalid", f"The command may have at most {COMMAND_WORDS_MAX} words.")]
    for position, word in enumerate(command, start=1):
        if problem := _text_problem(word, bytes_max=COMMAND_BYTES_MAX):
            return [FieldError("command", "invalid", f"Word {position} of the command {problem}.")]
    if not command[0].strip():
        return [FieldError("command", "invalid", "The command's first word names a program; it is empty.")]
    if sum(len(word.encode()) for word in command) > COMMAND_BYTES_MAX:
        return [FieldError("command", "invalid", f"The command may have at most {COMMAND_BYTES_MAX} bytes.")]
    return []


def _environment(body: dict[str, Any]) -> list[FieldError]:
    environment = body["environment"]
    if not isinstance(environment, dict):
        return [FieldError("environment", "invalid", "The environment must be names with their values.")]
    if len(environment) > ENVIRONMENT_NAMES_MAX:
        sentence = f"The environment may have at most {ENVIRONMENT_NAMES_MAX} names."
        return [FieldError("environment", "invalid", sentence)]
    problems = [
        FieldError("environment", "invalid", f"{str(name)[:60]!r} in the environment {problem}.")
        for name, value in environment.items()
        if (problem := _variable_problem(name, value))
    ]
    if problems:
        return problems
    if sum(len(name.encode()) + len(value.encode()) for name, value in environment.items()) > ENVIRONMENT_BYTES_MAX:
        return [
            FieldError("environment", "invalid", f"The environment may have at most {ENVIRONMENT_BYTES_MAX} bytes.")
        ]
    return []


def _variable_problem(name: Any, value: Any) -> str | None:
    if not isinstance(name, str) or not _POSIX_NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        return "is no name: letters, digits and _, no digit first"
    if name in RESERVED_NAMES or name.startswith(RESERVED_PREFIX):
        return "is set by the portal itself"
    problem = _text_problem(value, bytes_max=ENVIRONMENT_BYTES_MAX)
    return f"has a value that {problem}" if problem else None


def _whole(attr: str, least: int, most: int, words: str) -> Callable[[dict[str, Any]], list[FieldError]]:
    def check(body: dict[str, Any]) -> list[FieldError]:
        value = body[attr]
        if not is_whole(value) or not least <= value <= most:
            return [FieldError(attr, "invalid", f"{words} must be a whole number between {least} and {most}.")]
        return []

    return check


def is_whole(value: Any) -> bool:
    """An integer, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _timeout(body: dict[str, Any]) -> list[FieldError]:
    timeout, least = body["timeout_seconds"], body["min_runtime_seconds"]
    if timeout is None:
        return []
    if not is_whole(timeout) or not 1 <= timeout <= DURATION_MAX_SECONDS:
        sentence = f"The timeout must be a whole number of seconds between 1 and {DURATION_MAX_SECONDS}, or none."
        return [FieldError("timeout_seconds", "invalid", sentence)]
    if is_whole(least) and least > timeout:
        sentence = (
            f"The timeout ({duration_words(timeout)}) may not be below the minimum runtime ({duration_words(least)})."
        )
        return [FieldError("timeout_seconds", "below_min_runtime", sentence)]
    return []


def _flags(body: dict[str, Any]) -> list[FieldError]:
    names = [name for name in ("resumable", "allow_unallocated") if not isinstance(body[name], bool)]
    return [FieldError(name, "invalid", f"{name} must be true or false.") for name in names]


def _key(body: dict[str, Any]) -> list[FieldError]:
    key = body["idempotency_key"]
    if key is None:
        return []
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH_MAX or not key.isprintable():
        sentence = f"An Idempotency-Key has 1 to {KEY_LENGTH_MAX} printable characters."
        return [FieldError("idempotency_key", "invalid", sentence)]
    return []


_CHECKS: tuple[Callable[[dict[str, Any]], list[FieldError]], ...] = (
    _name,
    _command_or_script,
    _environment,
    _whole("replicas", 1, REPLICAS_MAX, "The number of replicas"),
    _whole("gpus_per_replica", 1, GPUS_PER_REPLICA_MAX, "GPUs per replica"),
    _whole("min_runtime_seconds", 0, DURATION_MAX_SECONDS, "The minimum runtime, in seconds,"),
    _timeout,
    _whole("priority", PRIORITY_LEAST, PRIORITY_MOST, "The priority"),
    _flags,
    _key,
)
