"""Whether a host's report has the agreed shape and size: what hosts send is checked before anything else reads it."""

import base64
import binascii
from typing import Any, cast

from portal.common.messages import (
    FAULT_KINDS,
    LOG_CHUNK_BYTES,
    REPORT_LOG_BYTES,
    REPORT_LOG_CHUNKS,
    REPORT_REPLICAS,
    SEQUENCE_MAX,
    Malformed,
    ReportBody,
    whole,
)

ID_MAX = 2**62
OFFSET_MAX = 2**62
GPUS_MAX = 1_048_576
AGO_SECONDS_MAX = 10 * 366 * 86_400
BODY_TEXTS = {"boot_id": 64, "gpu_model": 100, "agent_version": 40}
BODY_FLAGS = ("simulated", "separates_users")
BODY_FIELDS = {*BODY_TEXTS, *BODY_FLAGS, "gpus", "desired_sequence", "replicas", "logs"}
REPLICA_FIELDS = {"attempt", "replica", "state", "exit_code", "detail", "checkpointed_ago_seconds"}
LOG_FIELDS = {"attempt", "replica", "offset", "data"}
FAULT_FIELDS = {"gpu", "kind"}
FAULTS_MAX = 64
STATES = ("starting", "running", "exited")


def report_checked(body: Any) -> ReportBody:
    """The report, if every field is there and within its bounds."""
    # A report names faults only where there are some.
    fields_require(
        body, {*BODY_FIELDS, "faults"} if isinstance(body, dict) and "faults" in body else BODY_FIELDS, "A report"
    )
    for name, limit in BODY_TEXTS.items():
        require(text(body[name], limit), f"{name} must be a text of at most {limit} characters")
    for name in BODY_FLAGS:
        require(isinstance(body[name], bool), f"{name} must be true or false")
    require(whole(body["gpus"], 1, GPUS_MAX), f"gpus must be a whole number from 1 to {GPUS_MAX}")
    require(whole(body["desired_sequence"], 0, SEQUENCE_MAX), "desired_sequence must be a whole number")
    faults_check(body.get("faults", []))
    replicas_check(body["replicas"])
    logs_check(body["logs"])
    return cast(ReportBody, body)


def faults_check(faults: Any) -> None:
    """Each faulty GPU once, with a kind that is known."""
    require(isinstance(faults, list) and len(faults) <= FAULTS_MAX, f"faults must be a list of at most {FAULTS_MAX}")
    for entry in faults:
        fields_require(entry, FAULT_FIELDS, "A fault")
        require(whole(entry["gpu"], 0, GPUS_MAX - 1), "a fault's gpu must be an index")
        require(entry["kind"] in FAULT_KINDS, f"a fault's kind must be one of {', '.join(FAULT_KINDS)}")
    require(len({entry["gpu"] for entry in faults}) == len(faults), "a GPU's fault is listed twice")


def replicas_check(replicas: Any) -> None:
    """Each replica once, each field within its bounds."""
    require(isinstance(replicas, list) and len(replicas) <= REPORT_REPLICAS, "replicas must be a list, not too long")
    for entry in replicas:
        fields_require(entry, REPLICA_FIELDS, "A replica")
        require(whole(entry["attempt"], 1, ID_MAX) and whole(entry["replica"], 0, ID_MAX), "a replica has no number")
        require(entry["state"] in STATES, f"a replica's state must be one of {', '.join(STATES)}")
        code, ago = entry["exit_code"], entry["checkpointed_ago_seconds"]
        require(code is None or whole(code, 0, 255), "exit_code must be from 0 to 255 or null")
        require(ago is None or whole(ago, 0, AGO_SECONDS_MAX), "checkpointed_ago_seconds is out of bounds")
        require(text(entry["detail"], 300), "detail must be a text of at most 300 characters")
    named = {(entry["attempt"], entry["replica"]) for entry in replicas}
    require(len(named) == len(replicas), "a replica is listed twice")


def logs_check(logs: Any) -> None:
    """Chunks of output: base64, none too large, together none too many."""
    require(isinstance(logs, list) and len(logs) <= REPORT_LOG_CHUNKS, "logs must be a list, not too long")
    total = 0
    for entry in logs:
        fields_require(entry, LOG_FIELDS, "A log chunk")
        require(whole(entry["attempt"], 1, ID_MAX) and whole(entry["replica"], 0, ID_MAX), "a chunk has no number")
        require(whole(entry["offset"], 0, OFFSET_MAX), "offset must be a whole number")
        total += data_bytes(entry["data"])
    require(total <= REPORT_LOG_BYTES, f"log chunks are at most {REPORT_LOG_BYTES} bytes together")


def data_bytes(data: Any) -> int:
    """The size of a chunk's data, decoded."""
    require(isinstance(data, str) and len(data) <= LOG_CHUNK_BYTES * 2, f"data is at most {LOG_CHUNK_BYTES} bytes")
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise Malformed("data must be base64.") from None
    require(0 < size <= LOG_CHUNK_BYTES, f"data must have 1 to {LOG_CHUNK_BYTES} bytes")
    return size


def fields_require(value: Any, fields: set[str], what: str) -> None:
    """An object with exactly these fields."""
    if not isinstance(value, dict) or set(value) != fields:
        raise Malformed(f"{what} must have the fields {', '.join(sorted(fields))} alone.")


def text(value: Any, limit: int) -> bool:
    """A text that PostgreSQL can keep."""
    return isinstance(value, str) and len(value) <= limit and "\0" not in value and value.isprintable()


def require(condition: bool, complaint: str) -> None:
    """Refuse the report with a sentence."""
    if not condition:
        raise Malformed(f"In a report, {complaint}.")
