"""Starting and ending replicas: folder, user, environment, runner."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from portal.agent.files import Memory, json_write
from portal.agent.host import FIRST_UID, LAST_UID, LAUNCH_MARK, Host, work_base_make
from portal.agent.reconcile import Key
from portal.agent.replica import CHECKPOINT_NAME, ReplicaFolder, folder_of, folders
from portal.common.messages import DesiredAttempt

SOURCE = Path(__file__).resolve().parents[2]
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A mark in the environment of all that a replica starts, by which leftovers of a lost runner are found.
RUN_MARK = "COMMONS_RUN"


def replica_start(host: Host, memory: Memory, key: Key, wanted: DesiredAttempt, work_base: Path | None) -> int:
    """Make the folder and start a runner in it; returns the runner's process number."""
    folder = folder_of(host.attempts, key)
    if folder.path.exists():
        folder.remove()
    folder.path.mkdir(mode=0o711)
    folder.path.chmod(0o711)
    gpus = next(list(entry["gpus"]) for entry in wanted["replicas"] if entry["replica"] == key[1])
    uid = uid_next(host, memory) if host.separates_users else None
    token = secrets.token_hex(16)
    work = work_make(folder, work_base, token, uid)
    launch = {
        "argv": argv_of(wanted, work, uid),
        "environment": environment_of(wanted, key, gpus, work, token),
        "work_folder": str(work),
        "uid": uid,
    }
    facts = {"workload": wanted["workload"], "gpus": gpus, "uid": uid, "work_folder": str(work), "token": token}
    json_write(folder.path / "launch.json", launch)
    json_write(folder.path / "record.json", facts)
    return runner_start(folder)


def runner_start(folder: ReplicaFolder) -> int:
    """Start the runner in a session of its own, with the lock in its hands from before it begins."""
    handle = folder.lock_take()
    if handle is None:
        raise OSError(f"A runner already holds {folder.path}.")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", LAUNCH_MARK) if name in os.environ}
    try:
        with (folder.path / "runner.log").open("wb") as log:
            runner = subprocess.Popen(
                [sys.executable, "-s", "-S", "-E", "-m", "portal.agent.runner", str(folder.path)],
                cwd=SOURCE,
                env={"PATH": BASE_PATH, **kept},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(handle,),
                umask=0o077,
            )
    finally:
        os.close(handle)
    # The agent collects it by number when it ends, as it does those that it found here.
    runner.returncode = 0
    return runner.pid


def replica_refuse(host: Host, key: Key, detail: str) -> None:
    """Note that a replica will not run here."""
    folder = folder_of(host.attempts, key)
    folder.path.mkdir(mode=0o711, exist_ok=True)
    json_write(folder.path / "record.json", {"gpus": []})
    folder.exit_note(None, detail)


def replica_stop(folder: ReplicaFolder, grace_seconds: int) -> None:
    """Write down the grace, then wake the runner."""
    json_write(folder.path / "stop.json", {"grace_seconds": grace_seconds})
    runner = folder.runner
    if runner is not None and folder.runner_lives():
        os.kill(int(runner["pid"]), signal.SIGTERM)


def uid_next(host: Host, memory: Memory) -> int:
    """A numeric user that nothing on this machine has, and as long unused as can be.

    Another agent on the machine (a test's, say) draws from the same numbers: the first one is
    drawn at random, and one that a living process has is passed over.
    """
    used = {folder.record.get("uid") for folder in folders(host.attempts)} | uids_alive()
    span = LAST_UID - FIRST_UID + 1
    known = FIRST_UID <= memory.last_uid <= LAST_UID
    start = memory.last_uid - FIRST_UID + 1 if known else secrets.randbelow(span)
    for step in range(span):
        uid = FIRST_UID + (start + step) % span
        if uid not in used:
            memory.last_uid = uid
            memory.write()
            return uid
    raise OSError("No numeric user is free on this host.")


def uids_alive() -> set[int]:
    """The real users of all processes on this machine."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found.add(process.uids().real)
    return found


def work_make(folder: ReplicaFolder, work_base: Path | None, token: str, uid: int | None) -> Path:
    """The command's own folder, closed to all others."""
    if work_base is not None:
        work_base_make(work_base)
    work = folder.path / "work" if work_base is None else work_base / token
    work.mkdir(mode=0o700)
    if uid is not None:
        os.chown(work, uid, uid)
    return work


def argv_of(wanted: DesiredAttempt, work: Path, uid: int | None) -> list[str]:
    """The command, or the script in a file with the interpreter that its first line names, /bin/sh without one."""
    if command := wanted.get("command"):
        return list(command)
    script = work / "script"
    text = wanted.get("script", "").replace("\r\n", "\n")
    script.write_text(text, encoding="utf-8", errors="surrogateescape")
    script.chmod(0o500)
    if uid is not None:
        os.chown(script, uid, uid)
    first = text.partition("\n")[0]
    interpreter = first[2:].strip().split(None, 1) if first.startswith("#!") else []
    return [*(interpreter or ["/bin/sh"]), str(script)]


def environment_of(wanted: DesiredAttempt, key: Key, gpus: list[int], work: Path, token: str) -> dict[str, str]:
    """What the command sees: a small base, the author's own, then ours. Nothing of the agent's."""
    attempt, replica = key
    base = {
        "PATH": os.environ.get("PATH", BASE_PATH),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(work),
        "SHELL": "/bin/sh",
    }
    ours: dict[str, Any] = {
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in gpus),
        "COMMONS_WORKLOAD": wanted["workload"],
        "COMMONS_ATTEMPT": attempt,
        "COMMONS_REPLICA": replica,
        "COMMONS_REPLICAS": wanted.get("gang_replicas", len(wanted["replicas"])),
        "COMMONS_CHECKPOINT_FILE": work / CHECKPOINT_NAME,
        RUN_MARK: token,
    }
    if LAUNCH_MARK in os.environ:
        ours[LAUNCH_MARK] = os.environ[LAUNCH_MARK]
    author = {name: value for name, value in wanted.get("environment", {}).items() if name and "=" not in name}
    return {**base, **author, **{name: str(value) for name, value in ours.items()}}
