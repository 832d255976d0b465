"""The one way in: a file of any known format to TraceRows."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from portal.simulations.traces.csv_format import read_csv
from portal.simulations.traces.rows import TraceRefused as TraceRefused
from portal.simulations.traces.rows import TraceRows as TraceRows
from portal.simulations.traces.sacct_format import read_sacct
from portal.simulations.traces.swf_format import read_swf
from portal.simulations.traces.text import checked, detect, read_bytes

READERS: dict[str, Callable[[str, bytes], TraceRows]] = {"csv": read_csv, "swf": read_swf, "sacct": read_sacct}


def read_trace(source: Path | str | bytes | BinaryIO, *, name: str | None = None) -> TraceRows:
    """Jobs by submit time. Raises TraceRefused with file, line and column; `name` is what errors call the file."""
    file, data = read_bytes(source, name)
    data = checked(file, data)
    return READERS[detect(file, data)](file, data)
