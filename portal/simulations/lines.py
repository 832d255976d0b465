"""What a simulating process says to the worker that started it: JSON, a line each, on its standard output."""

import json
from typing import IO, Any, TypedDict


class Line(TypedDict, total=False):
    """One of these: how far it is; that it can't be simulated, and why; or the whole result."""

    progress: float
    refused: str
    result: dict[str, Any]


def line_write(stream: IO[str], line: Line) -> None:
    """Write it at once."""
    stream.write(json.dumps(line, allow_nan=False) + "\n")
    stream.flush()


def line_read(text: bytes) -> Line:
    """What such a line says."""
    line: Line = json.loads(text)
    return line
