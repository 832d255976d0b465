"""What `python -m portal.agent init` prints about a host, read as data: unknown shapes are refused by name."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.clusters.models import Cluster, Host
from portal.clusters.services import host_register
from portal.common.errors import Refused

BYTES_MAX = 65_536


@dataclass(frozen=True)
class HostDescription:
    """A host as it describes itself."""

    name: str
    public_key: bytes
    gpus: int
    gpu_model: str
    simulated: bool


def description_parse(text: str) -> HostDescription:
    """Read the JSON of `portal.agent init`."""
    try:
        given = json.loads(text) if len(text) <= BYTES_MAX else None
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise Refused("This is no host's description: give what `python -m portal.agent init` printed.")
    return HostDescription(
        name=_field(given, "name", str),
        public_key=_key(_field(given, "public_key", str)),
        gpus=_field(given, "gpus", int),
        gpu_model=_field(given, "gpu_model", str),
        simulated=_field(given, "simulated", bool),
    )


def _field(given: dict[str, Any], name: str, kind: type) -> Any:
    value = given.get(name)
    if type(value) is not kind:
        raise Refused(f"The host's description must have {name!r} ({kind.__name__}).", attr=name)
    return value


def _key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Refused("The host's public key must be hexadecimal.", attr="public_key") from None


def host_register_described(
    *, cluster: Cluster, description: HostDescription, now: datetime, topology_block: str = ""
) -> Host:
    """Register the host, by the system itself."""
    return host_register(
        cluster=cluster,
        name=description.name,
        gpus=description.gpus,
        gpu_model=description.gpu_model,
        simulated=description.simulated,
        public_key=description.public_key,
        topology_block=topology_block,
        now=now,
    )
