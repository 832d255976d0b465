"""From bytes to text, and which format it is: by what stands in the first line, never by the file's name."""

import io
from pathlib import Path
from typing import BinaryIO, TextIO

from portal.simulations.traces.rows import TraceRefused

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
SWF_FIELDS = 18
KNOWN = (
    "CSV with the columns job_id,user,project,submit_time_s,duration_s,gpus; SWF; or the output of sacct --parsable2"
)


def read_bytes(source: Path | str | bytes | BinaryIO, name: str | None = None) -> tuple[str, bytes]:
    """The name that errors give, and the content."""
    if isinstance(source, bytes):
        return name or "trace", source
    if isinstance(source, str | Path):
        path = Path(source)
        try:
            return name or path.name, path.read_bytes()
        except OSError as error:
            raise TraceRefused(str(path), f"can't be read ({error.strerror})") from None
    return name or Path(str(getattr(source, "name", "trace"))).name, source.read()


def checked(file: str, data: bytes) -> bytes:
    """UTF-8 with some text in it, without its byte-order mark."""
    if data.startswith(UTF16_MARKS):
        raise TraceRefused(file, "is UTF-16 text; save it as UTF-8", line=1)
    data = data.removeprefix(UTF8_MARK)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        line, byte = data.count(b"\n", 0, error.start) + 1, error.start - line_start + 1
        raise TraceRefused(file, f"is not UTF-8 text (byte {byte} of the line)", line=line) from None
    if not text or text.isspace():
        raise TraceRefused(file, "is empty")
    return data


def open_lines(data: bytes) -> TextIO:
    """Line by line; any line ends. Takes no copy of the text, which for a million rows would be large."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")


def detect(file: str, data: bytes) -> str:
    """`csv`, `swf` or `sacct`."""
    number, line = first_line(data)
    words = line.split()
    if line.startswith(";") or (len(words) == SWF_FIELDS and all(_is_number(word) for word in words)):
        return "swf"
    if "|" in line and {"jobid", "jobidraw"} & {name.strip().lower() for name in line.split("|")}:
        return "sacct"
    if "," in line:
        return "csv"
    raise TraceRefused(file, f"is no trace that is known ({KNOWN})", line=number)


def first_line(data: bytes) -> tuple[int, str]:
    """The first line that isn't blank, with its number."""
    lines = enumerate(open_lines(data), 1)
    return next((number, line.strip()) for number, line in lines if line.strip())


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
