"""Task names, queues, payloads and signatures: the words that portal, hosts and beat exchange. Django-free at import.

Desired state goes down and observed state comes up, each in an `Envelope` signed with Ed25519 over host, attempt,
sequence, action and body. Both directions are level-triggered: a lost message heals at the next.
"""

import json
import re
from typing import Any, NotRequired, TypedDict, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PORTAL_QUEUE = "portal"
REPORTS_QUEUE = "reports"
SIMULATIONS_QUEUE = "simulations"

PASS_ALL_TASK = "portal.scheduling.pass_all"  # noqa: S105 - the name of a task
PASS_TASK = "portal.scheduling.pass_one"  # noqa: S105 - the name of a task
SIMULATION_WORK_TASK = "portal.simulations.work"
SIMULATION_SWEEP_TASK = "portal.simulations.sweep"
REPORT_TASK = "portal.scheduling.report_receive"
DESIRED_TASK = "portal.agent.desired"

DESIRED_ACTION = "desired"
REPORT_ACTION = "report"
PROBE_ACTION = "probe"
PORTAL_NAME = "*portal"
"""Who sends probes: no host can have that name."""
EVERY_ATTEMPT = "*"
PASS_REQUEST_SECONDS = 5

DESIRED_SEQUENCE = "desired_sequence"
"""Field of a report's body: the sequence of the last desired state that the host has taken in, 0 for none since
the agent started. Only a report that is up to date (at or above the sequence last sent) can say by leaving an
attempt out that it is gone; an older one may simply not have heard of it yet."""

# Bounds on what a host may send; the agent keeps to them, the receiver refuses what doesn't.
LOG_CHUNK_BYTES = 64 * 1024
REPORT_LOG_BYTES = 256 * 1024
REPORT_LOG_CHUNKS = 64
REPORT_REPLICAS = 4096
REPORT_TEXT_CHARACTERS = 2 * 1024 * 1024
SEQUENCE_MAX = 2**62
FAULT_KINDS = ("gpu_lost",)
"""Fatal faults that a host may report of a GPU: it has fallen off the bus."""

HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_KEY = re.compile(r"[0-9a-f]{64}")
_SIGNED = ("action", "attempt", "body", "host", "sequence")

Payload = dict[str, Any]


class DesiredReplica(TypedDict):
    """One replica that this host runs, on these GPU indexes."""

    replica: int
    gpus: list[int]


class DesiredAttempt(TypedDict):
    """One attempt that should be on the host. `stop` needs no command; an attempt not listed is to be gone."""

    attempt: int
    workload: int
    action: str  # "run" or "stop"
    grace_seconds: int
    replicas: list[DesiredReplica]
    gang_replicas: NotRequired[int]  # replicas of the whole gang, on whatever hosts
    command: NotRequired[list[str]]
    script: NotRequired[str]  # used where command is empty
    environment: NotRequired[dict[str, str]]


class ReplicaReport(TypedDict):
    """What the host sees of one replica. `exited` is said only when none of its processes lives any more."""

    attempt: int
    replica: int
    state: str  # "starting", "running" or "exited"
    exit_code: int | None  # 128 + signal where a signal ended it; None where nothing ran or it was lost
    detail: str
    checkpointed_ago_seconds: int | None


class LogChunkReport(TypedDict):
    """A stretch of a replica's output from `offset` on; a gap before it was written faster than it could be kept."""

    attempt: int
    replica: int
    offset: int
    data: str  # base64


class FaultReport(TypedDict):
    """A fatal fault of a GPU, said in every report as long as it lasts."""

    gpu: int
    kind: str  # one of FAULT_KINDS


class ReportBody(TypedDict):
    """All that a host says of itself. `faults` is left out where there are none."""

    boot_id: str
    gpus: int
    gpu_model: str
    simulated: bool
    separates_users: bool
    agent_version: str
    desired_sequence: int
    replicas: list[ReplicaReport]
    logs: list[LogChunkReport]
    faults: NotRequired[list[FaultReport]]


class Envelope(TypedDict):
    """What goes through the broker. `signature` is hex over the canonical JSON of the rest."""

    host: str
    attempt: str
    sequence: int
    action: str
    body: Any
    signature: str


class MessageRefused(Exception):
    """A message that is not acted on; says why."""


class Malformed(MessageRefused):
    """Not of the agreed shape or size."""


class WrongSignature(MessageRefused):
    """Not signed by whom it says."""


class OtherHost(MessageRefused):
    """Meant for, or from, another host."""


class OldSequence(MessageRefused):
    """Not newer than what was taken in: a replay, or overtaken."""


def host_queue(host: str) -> str:
    """The queue that only the agent of `host` consumes."""
    if not HOST_NAME.fullmatch(host):
        raise Malformed(f"{host[:100]!r} is not a host name: letters, digits, '.', '-' and '_', at most 100.")
    return f"host.{host}"


def broker_user(host: str) -> str:
    """The broker's user for a host's agent."""
    return host_queue(host)


def broker_acl_rules(host: str) -> str:
    """What the broker lets a host's agent do, in Valkey's words: take from its own queue, push a report, no more.

    All its keys begin with its own queue's name (it has just that one: acknowledgements are not kept in the broker,
    so no key is shared between hosts). The part in brackets is a rule of its own for the reports' queue.
    """
    session = "+auth +hello +ping +select +client|setinfo +client|setname +multi +exec +discard"
    return f"resetchannels -@all {session} +llen +brpop +rpop %RW~{host_queue(host)} (%W~{REPORTS_QUEUE} +lpush)"


def key_make() -> str:
    """A new private key, 32 bytes as hex: what key files hold."""
    return Ed25519PrivateKey.generate().private_bytes_raw().hex()


def private_key(text: str) -> Ed25519PrivateKey:
    """The key that a key file's text holds."""
    if not _KEY.fullmatch(text.strip()):
        raise ValueError("A key file must hold 32 bytes as 64 lower-case hex digits.")
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.strip()))


def public_key_hex(key: Ed25519PrivateKey | str) -> str:
    """The public half, as hex, of a private key or of a key file's text."""
    private = private_key(key) if isinstance(key, str) else key
    return private.public_key().public_bytes_raw().hex()


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def envelope_sign(
    *, key: Ed25519PrivateKey, host: str, sequence: int, action: str, body: Any, attempt: str = EVERY_ATTEMPT
) -> Envelope:
    """Wrap and sign what is sent."""
    signed = {"host": host, "attempt": attempt, "sequence": sequence, "action": action, "body": body}
    return cast(Envelope, {**signed, "signature": key.sign(canonical(signed)).hex()})


def envelope_verify(
    envelope: object, *, public_key: bytes, host: str, action: str, after_sequence: int = -1
) -> Envelope:
    """The envelope, if it is whole, of this host and action, signed by that key and newer than `after_sequence`."""
    checked = envelope_shape(envelope)
    if checked["host"] != host:
        raise OtherHost(f"A message of host {checked['host'][:100]!r}, not of {host!r}.")
    signed = {name: value for name, value in checked.items() if name in _SIGNED}
    try:
        signature = bytes.fromhex(checked["signature"])
        Ed25519PublicKey.from_public_bytes(bytes(public_key)).verify(signature, canonical(signed))
    except (InvalidSignature, ValueError):
        raise WrongSignature(f"The signature of a message of host {host!r} is wrong.") from None
    if checked["action"] != action:
        raise Malformed(f"Action {checked['action'][:40]!r} where {action!r} was expected.")
    if checked["sequence"] <= after_sequence:
        raise OldSequence(f"Sequence {checked['sequence']} of host {host!r} is not after {after_sequence}.")
    return checked


def envelope_shape(envelope: object) -> Envelope:
    """The envelope, if it has exactly the fields of one, of the right kinds."""
    if not isinstance(envelope, dict) or set(envelope) != {*_SIGNED, "signature"}:
        raise Malformed("A message must have the fields host, attempt, sequence, action, body and signature alone.")
    texts = ("host", "attempt", "action", "signature")
    if not all(isinstance(envelope[name], str) and len(envelope[name]) <= 200 for name in texts):
        raise Malformed("Fields host, attempt, action and signature must be short texts.")
    if envelope["host"] != PORTAL_NAME and not HOST_NAME.fullmatch(envelope["host"]):
        raise Malformed(f"{envelope['host'][:100]!r} is not a host name.")
    if not whole(envelope["sequence"], 0, SEQUENCE_MAX):
        raise Malformed("Field sequence must be a whole number.")
    return cast(Envelope, envelope)


def whole(value: object, low: int, high: int) -> bool:
    """Whether it is a whole number within the bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def queue_bare(name: str) -> Any:
    """A queue that is reached by its name alone: no exchange, no binding, so no other key in the broker."""
    from kombu.entity import Exchange, Queue

    return Queue(name, exchange=Exchange(""), routing_key=name, no_declare=True)  # type: ignore[no-untyped-call]


def envelope_send(app: Any, task: str, envelope: Envelope, queue: str, *, newest_only: bool = False) -> None:
    """Push an envelope straight onto a queue; `newest_only` drops what still lies there.

    Nothing is declared in the broker, which a host's user may not do. Raises kombu's OperationalError when the
    broker is away or refuses.
    """
    target = queue_bare(queue)
    with (
        app.producer_pool.acquire(block=True, timeout=10) as producer,
        producer.connection._reraise_as_library_errors(),
    ):
        if newest_only:
            producer.channel.queue_purge(queue)
        app.send_task(task, args=[envelope], producer=producer, queue=target, declare=[], retry=False)


def pass_request(cluster_id: int, *, after_seconds: int = 0) -> None:
    """Ask for a pass over a cluster once the caller's transaction has committed, or so many seconds later: a few,
    for a worker keeps such a request in its memory.

    A broker that is away is not an error here: the beat's next tick does the same work. So is a request that waited
    behind others for longer than a pass may take: any pass made meanwhile has done its work.
    """
    from django.db import transaction
    from kombu.exceptions import OperationalError

    # The portal's own app: in the worker that takes in reports, the current one knows no other queue than its own.
    from portal.celery import app
    from portal.common.availability import BROKER, quick_producers

    when = {"countdown": after_seconds} if after_seconds else {}
    expires = after_seconds + PASS_REQUEST_SECONDS

    def send() -> None:
        try:
            with quick_producers(app).acquire(block=True, timeout=1) as producer:
                app.send_task(
                    PASS_TASK,
                    args=[cluster_id],
                    queue=PORTAL_QUEUE,
                    producer=producer,
                    retry=False,
                    expires=expires,
                    **when,
                )
            BROKER.note(away=False)
        except OperationalError:
            import logging

            BROKER.note(away=True)
            logging.getLogger(__name__).warning("The broker is away: the next beat makes the pass.")

    transaction.on_commit(send)
