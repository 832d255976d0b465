"""What to do about the difference between what should be on this host and what is: data in, data out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.common.messages import DesiredAttempt

# What is no longer wanted by anyone gets this long to save its work.
UNLISTED_GRACE_SECONDS = 10

Key = tuple[int, int]  # attempt, replica


@dataclass(frozen=True)
class Seen:
    """One replica as it is: `starting`, `running` or `exited`, its GPUs, the grace of a stop that was asked for."""

    state: str
    gpus: frozenset[int] = frozenset()
    stop_grace_seconds: int | None = None
    logs_pending: bool = False


@dataclass(frozen=True)
class Start:
    """Start a replica."""

    key: Key


@dataclass(frozen=True)
class Refuse:
    """Note that a replica which is to be stopped never started, so that this can be reported."""

    key: Key


@dataclass(frozen=True)
class Stop:
    """Ask a replica to end within the grace."""

    key: Key
    grace_seconds: int


@dataclass(frozen=True)
class Drop:
    """Forget an ended replica that nobody asks for any more."""

    key: Key


Action = Start | Refuse | Stop | Drop


def wanted(desired: Sequence[DesiredAttempt]) -> dict[Key, tuple[DesiredAttempt, frozenset[int]]]:
    """The desired list by replica, with the GPUs of each."""
    return {
        (attempt["attempt"], replica["replica"]): (attempt, frozenset(replica["gpus"]))
        for attempt in desired
        for replica in attempt["replicas"]
    }


def differences(desired: Sequence[DesiredAttempt], observed: Mapping[Key, Seen]) -> list[Action]:
    """Stops and drops first, then starts, in the order of their keys; nothing where all is as it should be.

    A replica is started at most once, and never on a GPU on which another still lives.
    """
    listed = wanted(desired)
    actions = [action for key in sorted(observed) if (action := change(key, observed[key], listed)) is not None]
    busy = {gpu for seen in observed.values() if seen.state != "exited" for gpu in seen.gpus}
    for key in sorted(set(listed) - set(observed)):
        attempt, gpus = listed[key]
        if attempt["action"] == "stop":
            actions.append(Refuse(key))
        elif not gpus & busy:
            actions.append(Start(key))
            busy |= gpus
    return actions


def change(key: Key, seen: Seen, listed: Mapping[Key, tuple[DesiredAttempt, frozenset[int]]]) -> Action | None:
    """What is to be done about one replica that is here."""
    if key not in listed:
        if seen.state == "exited":
            return None if seen.logs_pending else Drop(key)
        return stop_unless_sooner(key, seen, UNLISTED_GRACE_SECONDS)
    attempt, _ = listed[key]
    if attempt["action"] == "stop" and seen.state != "exited":
        return stop_unless_sooner(key, seen, attempt["grace_seconds"])
    return None


def stop_unless_sooner(key: Key, seen: Seen, grace_seconds: int) -> Stop | None:
    """Stop, unless it was told to with as short a grace before."""
    if seen.stop_grace_seconds is not None and seen.stop_grace_seconds <= grace_seconds:
        return None
    return Stop(key, grace_seconds)
