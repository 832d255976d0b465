"""A host with an agent and real processes; the portal's side is a key and a list of what was reported."""

import base64
import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.agent.host import host_init, host_read
from portal.agent.loop import Agent
from portal.agent.replica import ReplicaFolder, folder_of, folders
from portal.common import messages
from portal.launcher.waiting import until

PATIENCE_SECONDS = 40.0


class Bench:
    """A host's folder, an agent in this process that can be restarted, and all that it reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.portal_key = messages.key_make()
        self.reports: list[dict[str, Any]] = []
        self.outputs: dict[tuple[int, int], dict[int, bytes]] = {}
        self.broker_answers = True
        self.sequence = 0
        host_init(folder, "bench", 8)
        self.agent = self.agent_make()
        self.thread: threading.Thread | None = None

    def agent_make(self) -> Agent:
        public_key = bytes.fromhex(messages.public_key_hex(self.portal_key))
        return Agent(host_read(self.folder), public_key, self.hear)

    def hear(self, envelope: messages.Envelope) -> bool:
        if self.broker_answers:
            self.reports.append(envelope["body"])
            for chunk in envelope["body"]["logs"]:
                stretches = self.outputs.setdefault((chunk["attempt"], chunk["replica"]), {})
                stretches[chunk["offset"]] = base64.b64decode(chunk["data"])
        return self.broker_answers

    def start(self) -> None:
        self.thread = threading.Thread(target=self.agent.run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        if self.thread is not None:
            self.agent.stop()
            self.thread.join()
            self.thread = None

    def restart(self) -> None:
        self.stop()
        self.agent = self.agent_make()
        self.start()

    def envelope(self, body: Any, sequence: int) -> messages.Envelope:
        key = messages.private_key(self.portal_key)
        return messages.envelope_sign(key=key, host="bench", sequence=sequence, action="desired", body=body)

    def tell(self, *attempts: messages.DesiredAttempt) -> None:
        self.sequence += 1
        self.agent.take(self.envelope(list(attempts), self.sequence))

    def replica(self, attempt: int, replica: int = 0) -> dict[str, Any]:
        """What the last report says of it; nothing when it doesn't."""
        for entry in self.reports[-1]["replicas"] if self.reports else ():
            if (entry["attempt"], entry["replica"]) == (attempt, replica):
                return dict(entry)
        return {}

    def output(self, attempt: int, replica: int = 0) -> bytes:
        stretches = self.outputs.get((attempt, replica), {})
        return b"".join(stretches[offset] for offset in sorted(stretches))

    def folder_of(self, attempt: int, replica: int = 0) -> ReplicaFolder:
        return folder_of(self.agent.host.attempts, (attempt, replica))

    def wait(self, condition: Callable[[], Any], what: str = "it") -> None:
        assert until(lambda: bool(condition()), timeout_seconds=PATIENCE_SECONDS), f"{what} did not come about"

    def wait_state(self, attempt: int, state: str, replica: int = 0) -> dict[str, Any]:
        self.wait(lambda: self.replica(attempt, replica).get("state") == state, f"{state} of {attempt}-{replica}")
        return self.replica(attempt, replica)

    def wait_output(self, attempt: int, text: bytes, replica: int = 0) -> None:
        self.wait(lambda: text in self.output(attempt, replica), f"output {text!r}")

    def close(self) -> None:
        """End everything; nothing of a test may outlive it."""
        self.broker_answers = True
        if self.thread is None:
            self.restart()
        try:
            self.tell()
            self.wait(lambda: not folders(self.agent.host.attempts), "the end of all replicas")
        finally:
            self.stop()
        assert self.agent.work_base is None or not self.agent.work_base.exists()


def run(attempt: int, *command: str, gpus: tuple[int, ...] = (0,), **fields: Any) -> messages.DesiredAttempt:
    """An attempt that should run: one replica unless `replicas` says otherwise."""
    entry: dict[str, Any] = {
        "attempt": attempt,
        "workload": attempt + 1000,
        "action": "run",
        "grace_seconds": 1,
        "replicas": [{"replica": 0, "gpus": list(gpus)}],
        "command": list(command),
        "environment": {},
    }
    return messages.DesiredAttempt(**{**entry, **fields})  # type: ignore[typeddict-item]


def stop(attempt: int, grace_seconds: int = 1, **fields: Any) -> messages.DesiredAttempt:
    """The same attempt, to be stopped."""
    return run(attempt, action="stop", grace_seconds=grace_seconds, **fields)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A host whose agent runs, below a folder that other users may pass through."""
    with tempfile.TemporaryDirectory(prefix="commons-agent-") as name:
        Path(name).chmod(0o711)
        found = Bench(Path(name) / "agent")
        found.start()
        with contextlib.ExitStack() as ending:
            ending.callback(found.close)
            yield found
