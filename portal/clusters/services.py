"""Clusters, policies and hosts: what changes them. Every change leaves a trace and asks for a pass.

One rule gives a host its state (`host_state_refresh`): a person's cordon first, then what its health says.
Each change of state turns its span, which quota and availability are computed from.
"""

import hashlib
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import transaction

from portal.clusters.models import Cluster, Host, HostEvent, HostState, PolicyChange
from portal.clusters.policies import policy_problems
from portal.clusters.selectors import policy_values
from portal.clusters.spans import span_turn, spans_lose
from portal.common.errors import Conflict, FieldError, Forbidden, Refused
from portal.common.messages import HOST_NAME, pass_request
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import User

HOST_GPUS_MAX = 1_048_576
DESCRIPTION_LENGTH_MAX = 10_000
CORDON_FIELDS = ("cordoned_at", "cordoned_by", "cordon_reason")
OVERRIDE_FIELDS = ("overridden_codes", "overridden_at", "overridden_by")
DRAINED_STATES = (HostState.CORDONED, HostState.UNHEALTHY)
"""Hosts that empty as contracts end, and are ready for repair once they are empty (R15)."""


def operator_require(actor: User | None) -> None:
    """Clusters, hosts and policies are run by operators and administrators; None is the system itself."""
    if actor is not None and not actor.is_site_wide:
        raise Forbidden("Only operators and administrators change clusters, hosts and policies.")


@transaction.atomic
def cluster_create(*, name: str, actor: User | None, now: datetime, description: str = "") -> Cluster:
    """Make a cluster with the default policy."""
    operator_require(actor)
    try:
        validate_slug(name)
    except ValidationError:
        raise Refused("A cluster's name is made of letters, digits, - and _.", attr="name") from None
    if len(name) > 60 or Cluster.objects.filter(name=name).exists():
        raise Refused("The name is taken, or longer than 60 characters.", attr="name", code="unique")
    _description_require(description)
    cluster = Cluster.objects.create(name=name, description=description.strip(), created_at=now)
    audit_record(actor=actor, action="cluster_create", target=cluster, before={}, after={"name": name}, now=now)
    return cluster


@transaction.atomic
def cluster_create_once(*, name: str, actor: User | None, now: datetime, description: str = "") -> tuple[Cluster, bool]:
    """`cluster_create` for askers who may ask twice: the very same cluster is given again."""
    operator_require(actor)
    made = None if "\0" in name else Cluster.objects.filter(name=name).first()
    if made is not None and made.description == description.strip():
        return made, False
    return cluster_create(name=name, description=description, actor=actor, now=now), True


@transaction.atomic
def cluster_change(
    *, cluster: Cluster, description: str, actor: User | None, now: datetime, base_version: int | None = None
) -> Cluster:
    """Describe a cluster anew. Its name stays: workloads, scenarios and scripts know it by that."""
    operator_require(actor)
    held = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    if held.description == description.strip():
        return held
    if base_version is not None and base_version != held.version:
        raise Conflict(
            f"{held.name} is at version {held.version} by now; yours was based on version {base_version}.",
            attr="base_version",
            current_version=held.version,
        )
    _description_require(description)
    before = {"description": held.description}
    held.description, held.version = description.strip(), held.version + 1
    held.save(update_fields=["description", "version"])
    after = {"description": held.description}
    audit_record(actor=actor, action="cluster_change", target=held, before=before, after=after, now=now)
    return held


def _description_require(description: str) -> None:
    if len(description) > DESCRIPTION_LENGTH_MAX or "\0" in description:
        sentence = f"A description has at most {DESCRIPTION_LENGTH_MAX} characters."
        raise Refused(sentence, attr="description")


@transaction.atomic
def policy_change(
    *, cluster: Cluster, overrides: dict[str, Any], reason: str, author: User | None, base_version: int, now: datetime
) -> PolicyChange:
    """Replace what the cluster's policy says beside the defaults; refuses all wrong settings together."""
    operator_require(author)
    Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    latest = PolicyChange.objects.filter(cluster=cluster).order_by("-version").first()
    current = latest.version if latest else 0
    if base_version != current:
        raise Conflict(
            f"The policy is at version {current} by now; yours was based on {base_version}.",
            attr="base_version",
            current_version=current,
        )
    if not reason.strip() or "\0" in reason:
        raise Refused("Give the reason for this change.", attr="reason", code="required")
    if problems := policy_problems(overrides):
        raise Refused.many(problems)
    before = policy_values(cluster=cluster)
    change = PolicyChange.objects.create(
        cluster=cluster,
        version=current + 1,
        overrides=overrides,
        author=author,
        reason=reason.strip(),
        created_at=now,
    )
    after = policy_values(cluster=cluster)
    changed = [name for name in after if after[name] != before[name]]
    audit_record(
        actor=author,
        action="policy_change",
        target=cluster,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed},
        now=now,
        reason=reason.strip(),
    )
    pass_request(cluster.pk)
    return change


@transaction.atomic
def cluster_pause(*, cluster: Cluster, paused: bool, actor: User | None, now: datetime) -> None:
    """Stop or resume the passes over a cluster; what runs goes on."""
    operator_require(actor)
    held = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    if (held.paused_at is not None) == paused:
        return
    before = held.paused_at
    held.paused_at = cluster.paused_at = now if paused else None
    held.save(update_fields=["paused_at"])
    audit_record(
        actor=actor,
        action="cluster_pause",
        target=cluster,
        before={"paused_at": before.isoformat() if before else None},
        after={"paused_at": now.isoformat() if paused else None},
        now=now,
    )
    pass_request(cluster.pk)


def key_fingerprint(public_key: bytes | memoryview | None) -> str | None:
    """How a host's key is named in the audit log."""
    return None if public_key is None else hashlib.sha256(bytes(public_key)).hexdigest()[:16]


def host_locked(host: Host) -> Host:
    """The host's row, held until the transaction ends."""
    return Host.objects.select_for_update(no_key=True).get(pk=host.pk)


def host_event(host: Host, kind: str, detail: str, actor: User | None, now: datetime) -> None:
    """A line of the repair log."""
    HostEvent.objects.create(host=host, at=now, kind=kind, detail=detail[:500], actor=actor)


def _state_of(host: Host) -> tuple[HostState, str]:
    if host.cordoned_at is not None:
        return HostState.CORDONED, host.cordon_reason[:200]
    if host.unhealthy_cause:
        return HostState.UNHEALTHY, host.unhealthy_cause
    if host.last_heard_at is None:
        return HostState.UNREACHABLE, "Not heard yet."
    if host.silent_at is not None:
        return HostState.UNREACHABLE, f"Not heard since {host.last_heard_at:%F %T} UTC."
    if host.gone_at is not None:
        return HostState.UNREACHABLE, "Heard again; takes work once it says that it is empty."
    return HostState.SCHEDULABLE, ""


@transaction.atomic
def host_state_refresh(*, host: Host, now: datetime) -> bool:
    """Bring `state` in line with cordon and health; returns whether it changed. Turns the span if so."""
    held = host_locked(host)
    state, cause = _state_of(held)
    changed = (held.state, held.state_cause) != (state, cause)
    held.state, held.state_cause = state, cause
    if state not in DRAINED_STATES:
        held.ready_at = None
    if changed:
        held.save(update_fields=["state", "state_cause", "ready_at"])
    span_turn(held, whole_second(now))
    for name in ("state", "state_cause", "ready_at", "gpus"):
        setattr(host, name, getattr(held, name))
    if changed:
        pass_request(held.cluster_id)
    return changed


@transaction.atomic
def host_register(
    *,
    cluster: Cluster,
    name: str,
    gpus: int,
    gpu_model: str,
    simulated: bool,
    public_key: bytes | None,
    now: datetime,
    topology_block: str = "",
    actor: User | None = None,
) -> Host:
    """Make a host known, unreachable until it is heard; the same host again takes over key and description."""
    operator_require(actor)
    _register_checked(name, gpus, public_key)
    host = Host.objects.select_for_update(no_key=True).filter(name=name).first()
    if host is not None and host.cluster_id != cluster.pk:
        raise Refused(f"Host {name} is registered in cluster {host.cluster.name}.", attr="name", code="unique")
    facts = {"gpu_model": gpu_model, "simulated": simulated, "topology_block": topology_block}
    if host is None:
        host = Host.objects.create(
            cluster=cluster, name=name, gpus=gpus, public_key=public_key, registered_at=now, **facts
        )
        host_event(host, "registered", f"{gpus} GPUs {gpu_model}".strip(), actor, now)
        before: dict[str, object] = {}
    else:
        before = {"gpus": host.gpus, "key": key_fingerprint(host.public_key)}
        _key_take(host, public_key, actor, now)
        host.gpus, host.retired_at = gpus, None
        for field, value in facts.items():
            setattr(host, field, value)
        host.save()
    host_state_refresh(host=host, now=now)
    after = {"gpus": gpus, "key": key_fingerprint(public_key)}
    if before != after:
        audit_record(actor=actor, action="host_register", target=host, before=before, after=after, now=now)
        pass_request(cluster.pk)
    return host


def _register_checked(name: str, gpus: int, public_key: bytes | None) -> None:
    errors = []
    if not HOST_NAME.fullmatch(name):
        sentence = "A host's name has 1 to 100 letters, digits, '-', '.' or '_', a letter or digit first."
        errors.append(FieldError("name", "invalid", sentence))
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 1 <= gpus <= HOST_GPUS_MAX:
        errors.append(FieldError("gpus", "invalid", f"A host has 1 to {HOST_GPUS_MAX} GPUs."))
    if public_key is not None and len(public_key) != 32:
        errors.append(FieldError("public_key", "invalid", "A public key is 32 bytes (Ed25519)."))
    if errors:
        raise Refused.many(errors)


def _key_take(host: Host, public_key: bytes | None, actor: User | None, now: datetime) -> None:
    """A new key begins a new count of reports: an agent whose folder was lost starts again from 1."""
    if key_fingerprint(host.public_key) == key_fingerprint(public_key):
        return
    host.public_key = public_key
    host.report_sequence = 0
    host_event(host, "key_changed", f"now {key_fingerprint(public_key)}", actor, now)


@transaction.atomic
def host_heard(*, host: Host, gpus: int, boot_id: str, now: datetime) -> None:
    """The host spoke. Most of the time nothing else has changed: one update."""
    host.last_heard_at = now
    unchanged = Host.objects.filter(
        pk=host.pk, gpus=gpus, boot_id=boot_id, silent_at=None, last_heard_at__isnull=False
    ).update(last_heard_at=now)
    if unchanged:
        return
    held = host_locked(host)
    if held.silent_at is not None or held.last_heard_at is None:
        host_event(held, "heard", "The host is heard again." if held.last_heard_at else "First heard.", None, now)
    if held.boot_id and held.boot_id != boot_id:
        host_event(held, "booted", "The host was started anew.", None, now)
        if held.last_heard_at is not None:
            # What it did from its last word on is over, and it took no work meanwhile.
            spans_lose(held, whole_second(held.last_heard_at), whole_second(now), "Started anew.")
    if held.gpus != gpus:
        host_event(held, "gpus_changed", f"from {held.gpus} to {gpus} GPUs", None, now)
    held.gpus, held.boot_id, held.silent_at, held.last_heard_at = gpus, boot_id, None, now
    held.save(update_fields=["gpus", "boot_id", "silent_at", "last_heard_at"])
    host_state_refresh(host=held, now=now)
    for name in ("gpus", "boot_id", "silent_at", "state", "state_cause"):
        setattr(host, name, getattr(held, name))


@transaction.atomic
def host_silent(*, host: Host, now: datetime) -> None:
    """The host is not heard any more: unreachable, unless a person's cordon says otherwise."""
    held = host_locked(host)
    if held.silent_at is None:
        held.silent_at = now
        held.save(update_fields=["silent_at"])
        host_event(held, "silent", "The host is not heard any more.", None, now)
    host.silent_at = held.silent_at
    host_state_refresh(host=host, now=now)


@transaction.atomic
def host_cordon(*, host: Host, reason: str, actor: User | None, now: datetime) -> None:
    """A person takes the host out: no new attempts until it is uncordoned. An earlier override is lifted by it."""
    operator_require(actor)
    if not reason.strip() or "\0" in reason or len(reason) > 300:
        raise Refused("Give the reason, in at most 300 characters.", attr="reason", code="required")
    held = host_locked(host)
    before = {"cordoned": held.cordoned_at is not None, "reason": held.cordon_reason}
    after = {"cordoned": True, "reason": reason.strip()}
    if before != after:
        held.cordoned_at, held.cordoned_by, held.cordon_reason = now, actor, reason.strip()
        held.overridden_codes, held.overridden_at, held.overridden_by = [], None, None
        held.save(update_fields=[*CORDON_FIELDS, *OVERRIDE_FIELDS])
        host_event(held, "cordoned", reason.strip(), actor, now)
        audit_record(
            actor=actor, action="host_cordon", target=held, before=before, after=after, now=now, reason=reason.strip()
        )
    host_state_refresh(host=host, now=now)
    for name in (*CORDON_FIELDS, *OVERRIDE_FIELDS):
        setattr(host, name, getattr(held, name))


@transaction.atomic
def host_uncordon(*, host: Host, actor: User | None, now: datetime) -> None:
    """A person gives the host back. Their word outranks automation: what made it unhealthy is lifted too, and is not
    found again until that override is lifted (`health.host_override_lift`, or the next cordon)."""
    operator_require(actor)
    held = host_locked(host)
    before = {"cordoned": held.cordoned_at is not None, "unhealthy_cause": held.unhealthy_cause}
    after = {"cordoned": False, "unhealthy_cause": ""}
    if before != after:
        if held.unhealthy_code:
            held.overridden_codes = sorted({*held.overridden_codes, *held.unhealthy_code.split(",")})
            held.overridden_at, held.overridden_by = now, actor
        held.cordoned_at, held.cordoned_by, held.cordon_reason = None, None, ""
        held.unhealthy_cause, held.unhealthy_code = "", ""
        held.save(update_fields=[*CORDON_FIELDS, *OVERRIDE_FIELDS, "unhealthy_cause", "unhealthy_code"])
        host_event(held, "uncordoned", "", actor, now)
        audit_record(actor=actor, action="host_uncordon", target=held, before=before, after=after, now=now)
    host_state_refresh(host=host, now=now)
    for name in (*CORDON_FIELDS, *OVERRIDE_FIELDS, "unhealthy_cause", "unhealthy_code"):
        setattr(host, name, getattr(held, name))
