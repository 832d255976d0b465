"""Who this host is: its folder, key, name and GPUs."""

import hashlib
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from portal.agent.files import json_read, json_write
from portal.agent.gpus import Gpus, gpus_find
from portal.common.messages import HOST_NAME, key_make, private_key, public_key_hex

# Numbers that no account has: systemd keeps this range for users that come and go.
FIRST_UID, LAST_UID = 61184, 65519
LAUNCH_MARK = "COMMONS_LAUNCH"


class HostError(Exception):
    """A sentence for the person who started the agent."""


@dataclass(frozen=True)
class Host:
    """The agent's folder and what is kept in it about the host."""

    folder: Path
    name: str
    key: Ed25519PrivateKey
    gpus: Gpus
    separates_users: bool

    @property
    def attempts(self) -> Path:
        """One folder a replica, closed to workloads but for their own work folder in it."""
        return self.folder / "attempts"


def host_init(folder: Path, name: str, simulated_gpus: int) -> dict[str, Any]:
    """Make the folder, the key and the host's description; what is there stays. Returns what to register."""
    if not HOST_NAME.fullmatch(name):
        raise HostError(f"{name!r} can't be a host's name: use letters, digits, '.', '-' and '_', at most 100.")
    if simulated_gpus < 1:
        raise HostError("--gpus must be 1 or more.")
    try:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder.chmod(0o711)
        (folder / "attempts").mkdir(mode=0o711, exist_ok=True)
        text = key_text(folder / "key")
    except OSError as error:
        raise HostError(f"{folder} can't be used ({error.strerror}); name a folder that you may write to.") from None
    gpus = gpus_find(simulated_gpus)
    json_write(folder / "host.json", {"name": name, **asdict(gpus)})
    registered = {"gpus": gpus.count, "gpu_model": gpus.model, "simulated": gpus.simulated}
    return {"name": name, "public_key": public_key_hex(text), **registered}


def key_text(path: Path) -> str:
    """The key file's text, made at first."""
    if not path.exists():
        partial = path.with_name("key.new")
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(key_make() + "\n")
        partial.rename(path)
    return path.read_text()


def host_read(folder: Path) -> Host:
    """The host of an initialised folder."""
    kept = json_read(folder / "host.json")
    if kept is None or not (folder / "key").exists():
        raise HostError(f"{folder} holds no host; run: python -m portal.agent init --dir {folder} --name NAME")
    try:
        key = private_key((folder / "key").read_text())
    except ValueError as error:
        raise HostError(
            f"The key in {folder / 'key'} is damaged: {error} Remove it, init and register again."
        ) from None
    gpus = Gpus(int(kept["count"]), str(kept["model"]), bool(kept["simulated"]))
    return Host(folder, str(kept["name"]), key, gpus, separates_users=can_separate())


def can_separate() -> bool:
    """Whether workloads can run under numeric users of their own: as root, where this machine lets root do so."""
    return os.geteuid() == 0 and runs_as_other(["/bin/true"])


def runs_as_other(argv: list[str]) -> bool:
    """Whether a command works as a numeric user."""
    try:
        finished = subprocess.run(
            argv,
            user=FIRST_UID,
            group=FIRST_UID,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return False
    return finished.returncode == 0


def work_base(host: Host) -> Path | None:
    """Where work folders go when a numeric user can't reach the agent's folder; None when it can."""
    if not host.separates_users or runs_as_other(["/bin/sh", "-c", 'cd "$0"', str(host.attempts)]):
        return None
    label = hashlib.sha256(str(host.folder.resolve()).encode()).hexdigest()[:16]
    return Path("/var/tmp") / f"gpu-commons-work-{label}"  # noqa: S108 - checked to be ours when it is made


def work_base_make(base: Path) -> None:
    """Make that folder, or see that it is ours alone; it goes with the last work folder in it."""
    base.mkdir(mode=0o711, exist_ok=True)
    found = base.lstat()
    if base.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise OSError(f"{base} is somebody else's; remove it")


def boot_id() -> str:
    """Changes when the machine, its container or the embedded launcher starts anew."""
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    first = Path("/proc/1/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    return hashlib.sha256(f"{kernel} {first} {os.environ.get(LAUNCH_MARK, '')}".encode()).hexdigest()[:32]
