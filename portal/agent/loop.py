"""The agent's loop: take in what is desired, make it so, say what is. It works on while the broker is away."""

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from portal.agent.files import Memory
from portal.agent.host import Host, boot_id, work_base
from portal.agent.launching import replica_refuse, replica_start, replica_stop
from portal.agent.leftovers import lost_settle
from portal.agent.logs import chunks_collect, logs_pending, sent_note
from portal.agent.reconcile import Drop, Key, Refuse, Seen, Start, Stop, differences, wanted
from portal.agent.replica import ReplicaFolder, folder_of, folders
from portal.common import messages

logger = logging.getLogger(__name__)

VERSION = "1"
TICK_SECONDS = 1.0
START_PAUSE_SECONDS = 0.1
LOG_PAUSE_SECONDS = 0.5
CHANGE_PAUSE_SECONDS = 2.0
SILENCE_SECONDS = 10.0
AGAIN_SECONDS = 2.0
ROUNDS = 4

Send = Callable[[messages.Envelope], bool]


class Agent:
    """One host's agent. `send` hands an envelope to the broker and says whether it took it."""

    def __init__(self, host: Host, public_key: bytes, send: Send) -> None:
        self.host = host
        self.public_key = public_key
        self.send = send
        self.memory = Memory.read(host.folder / "state.json")
        self.boot_id = boot_id()
        self.work_base = work_base(host)
        self.lock = threading.Lock()
        self.wake_read, self.wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.watched: dict[int, int] = {}  # runner's process number -> file that is readable at its end
        self.stopping = False
        self.told_states: Any = None
        self.told_all: Any = None
        self.tried_at = self.sent_at = float("-inf")
        self.urgent = self.starting = True
        for folder in folders(host.attempts):
            self.adopt(folder)

    def take(self, envelope: object) -> None:
        """Take in a desired state: refused unless the portal signed it for this host and it is newer."""
        try:
            checked = messages.envelope_verify(
                envelope,
                public_key=self.public_key,
                host=self.host.name,
                action=messages.DESIRED_ACTION,
                after_sequence=self.memory.desired_sequence,
            )
            desired = desired_checked(checked["body"])
        except messages.MessageRefused as refusal:
            logger.warning("Refused: %s", refusal)
            return
        with self.lock:
            self.memory.desired_sequence = checked["sequence"]
            self.memory.desired = desired
            self.memory.write()
        self.wake()

    def wake(self) -> None:
        """Have the loop look at once."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.wake_write, b"\0")

    def stop(self) -> None:
        """End the loop; replicas run on."""
        self.stopping = True
        self.wake()

    def run(self) -> None:
        """Look whenever something happened, and once a second."""
        while not self.stopping:
            try:
                self.step()
            except OSError:
                logger.exception("A look at this host failed; the next is in a second.")
            self.wait()

    def wait(self) -> None:
        """Until a message came, a runner ended, or a tick passed."""
        ready, _, _ = select.select([self.wake_read, *self.watched.values()], [], [], self.pause())
        if self.wake_read in ready:
            os.read(self.wake_read, 4096)
        for pid, handle in list(self.watched.items()):
            if handle in ready:
                self.collect(pid)

    def pause(self) -> float:
        """A short one while a command is about to start or output waits."""
        if self.starting:
            return START_PAUSE_SECONDS
        return LOG_PAUSE_SECONDS if self.urgent else TICK_SECONDS

    def step(self) -> None:
        """1. settle what is lost 2. make what is desired so 3. report if there is something to say."""
        with self.lock:
            for _ in range(ROUNDS):
                if not self.reconcile():
                    break
            self.report_if_due(time.monotonic())

    def reconcile(self) -> bool:
        """One round of differences; whether anything was done."""
        observed: dict[Key, Seen] = {}
        for folder in folders(self.host.attempts):
            if folder.state() != "exited" and not folder.runner_lives():
                lost_settle(folder)
            observed[folder.key] = folder.seen(logs_pending=logs_pending(folder))
        self.urgent = any(seen.logs_pending for seen in observed.values())
        self.starting = any(seen.state == "starting" for seen in observed.values())
        if self.memory.desired is None:
            return False
        actions = differences(self.memory.desired, observed)
        for action in actions:
            self.act(action)
        return bool(actions)

    def act(self, action: Start | Refuse | Stop | Drop) -> None:
        """Do one thing."""
        folder = folder_of(self.host.attempts, action.key)
        logger.info("%s", action)
        if isinstance(action, Start):
            self.start(action.key)
        elif isinstance(action, Refuse):
            replica_refuse(self.host, action.key, "It was stopped before it started.")
        elif isinstance(action, Stop):
            replica_stop(folder, action.grace_seconds)
        else:
            folder.remove()

    def start(self, key: Key) -> None:
        """Start a replica, or say why that can't be."""
        attempt, _ = wanted(self.memory.desired or [])[key]
        try:
            self.watch(replica_start(self.host, self.memory, key, attempt, self.work_base))
        except (OSError, ValueError) as error:
            logger.exception("Replica %s could not be started.", key)
            replica_refuse(self.host, key, f"It could not be started: {error}")

    def adopt(self, folder: ReplicaFolder) -> None:
        """Find what an earlier agent left: nothing that runs is touched, what never began is forgotten."""
        if folder.state() == "exited":
            return
        runner = folder.runner
        if folder.runner_lives():
            if runner is not None:
                self.watch(int(runner["pid"]))
            if (folder.path / "stop.json").exists() and (stop := folder.seen(logs_pending=False).stop_grace_seconds):
                replica_stop(folder, stop)
        elif folder.never_began():
            folder.remove()

    def watch(self, pid: int) -> None:
        """Be woken when a runner ends."""
        with contextlib.suppress(ProcessLookupError):
            self.watched[pid] = os.pidfd_open(pid)

    def collect(self, pid: int) -> None:
        """Let an ended runner go; those of an earlier agent are not our children."""
        os.close(self.watched.pop(pid))
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def report_if_due(self, now: float) -> None:
        """At once when a replica changed, soon when anything did or output waits, at least every ten seconds."""
        listed = wanted(self.memory.desired or [])
        found = folders(self.host.attempts)
        replicas = [folder.report() for folder in found if folder.state() != "exited" or folder.key in listed]
        states = [(entry["attempt"], entry["replica"], entry["state"]) for entry in replicas]
        said = self.essence(replicas)
        age = now - self.sent_at
        due = (
            states != self.told_states
            or age >= SILENCE_SECONDS
            or (age >= LOG_PAUSE_SECONDS and self.urgent)
            or (age >= CHANGE_PAUSE_SECONDS and said != self.told_all)
        )
        refused = self.tried_at > self.sent_at
        if due and not (refused and now - self.tried_at < AGAIN_SECONDS) and self.report(found, replicas, now):
            self.told_states, self.told_all = states, said

    def essence(self, replicas: list[messages.ReplicaReport]) -> Any:
        """What a report says, without ages that only grow."""
        now = time.time()
        return self.memory.desired_sequence, [
            (entry["attempt"], entry["replica"], entry["state"], saved_at(entry, now)) for entry in replicas
        ]

    def report(self, found: list[ReplicaFolder], replicas: list[messages.ReplicaReport], now: float) -> bool:
        """Send what is; what was sent of the outputs is noted only when the broker has it."""
        chunks, offsets = chunks_collect(found)
        body: messages.ReportBody = {
            "boot_id": self.boot_id,
            "gpus": self.host.gpus.count,
            "gpu_model": self.host.gpus.model,
            "simulated": self.host.gpus.simulated,
            "separates_users": self.host.separates_users,
            "agent_version": VERSION,
            "desired_sequence": self.memory.desired_sequence,
            "replicas": replicas[: messages.REPORT_REPLICAS],
            "logs": chunks,
        }
        envelope = messages.envelope_sign(
            key=self.host.key,
            host=self.host.name,
            sequence=self.memory.report_sequence_next(),
            action=messages.REPORT_ACTION,
            body=body,
        )
        self.tried_at = now
        if not self.send(envelope):
            return False
        self.sent_at = now
        for folder, offset in offsets.items():
            sent_note(folder, offset)
        return True


def saved_at(entry: messages.ReplicaReport, now: float) -> int | None:
    """About when a replica saved its progress: the same number, give or take a little, until it does so again."""
    ago = entry["checkpointed_ago_seconds"]
    return None if ago is None else int((now - ago) // 4)


def desired_checked(body: Any) -> list[messages.DesiredAttempt]:
    """The list, if it can be acted on; the portal signed it, so a wrong one is a fault and not an attack."""
    try:
        for attempt in body:
            for replica in attempt["replicas"]:
                numbers = [attempt["attempt"], attempt["workload"], attempt["grace_seconds"], replica["replica"]]
                if not all(messages.whole(number, 0, 2**62) for number in [*numbers, *replica["gpus"]]):
                    raise messages.Malformed("A desired state has a number that is none.")
            if attempt["action"] not in ("run", "stop"):
                raise messages.Malformed(f"Unknown action {attempt['action']!r}.")
    except (TypeError, KeyError) as error:
        raise messages.Malformed(f"A desired state lacks {error}.") from None
    return list(body)
