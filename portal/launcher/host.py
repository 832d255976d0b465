"""This machine as a GPU host of the embedded default: its name, its broker user, its agent's folder."""

import json
import os
import re
import socket
import subprocess
from pathlib import Path

from portal.common import messages
from portal.launcher import table
from portal.launcher.errors import LaunchError
from portal.launcher.folder import Folder
from portal.launcher.records import MARKER
from portal.launcher.services import Services
from portal.launcher.valkey import BrokerUser, broker_url

PASSWORD_NAME = "broker-host"  # noqa: S105 - a file's name
INIT_SECONDS = 120
PUBLIC_KEY_NAME = "portal.pub"
# A host that isn't the embedded default's own broker is reached as the environment says.
AGENT_BROKER_NAME = "AGENT_BROKER_URL"
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES")


def host_name(folder: Folder) -> str:
    """The name that the agent's folder has, else this machine's, else `local`: a new name would be a new host."""
    try:
        return str(json.loads((folder.agent / "host.json").read_text())["name"])
    except (FileNotFoundError, ValueError, KeyError):
        pass
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:63].strip("._-")
    return name if messages.HOST_NAME.fullmatch(name) else "local"


def host_user(folder: Folder) -> BrokerUser:
    """The broker's user for this host: its own queue and the way up, no more."""
    name = host_name(folder)
    return BrokerUser(messages.broker_user(name), folder.secret(PASSWORD_NAME), messages.broker_acl_rules(name))


def host_init(services: Services) -> "subprocess.Popen[bytes]":
    """Have the agent make its folder and key; what it prints is what to register."""
    folder = services.folder
    with (folder.run / "host.json").open("wb") as described:
        return subprocess.Popen(
            [table.PYTHON, "-m", "portal.agent", "init", "--dir", str(folder.agent), "--name", host_name(folder)],
            cwd=table.SOURCE,
            env=agent_environment(services),
            stdin=subprocess.DEVNULL,
            stdout=described,
            stderr=subprocess.PIPE,
        )


def host_init_wait(process: "subprocess.Popen[bytes]", folder: Folder) -> Path:
    """The file with what to register."""
    try:
        _, told = process.communicate(timeout=INIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise LaunchError(
            f"This host's GPUs could not be counted in {INIT_SECONDS} s; see what nvidia-smi says."
        ) from None
    if process.returncode != 0:
        raise LaunchError(f"This host could not be set up: {told.decode(errors='replace').strip()}")
    return folder.run / "host.json"


def agent_environment(services: Services) -> dict[str, str]:
    """What the agent is told: nothing of the portal's database, keys or broker user."""
    folder = services.folder
    public_key = folder.agent / PUBLIC_KEY_NAME
    public_key.write_text(messages.public_key_hex(folder.secret("signing-key")))
    own_broker = os.environ.get(AGENT_BROKER_NAME, services.broker_url)
    if services.valkey is not None:
        user = host_user(folder)
        own_broker = broker_url(services.valkey.socket, user.name, user.password)
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    told = {"BROKER_URL": own_broker, "PORTAL_PUBLIC_KEY_FILE": str(public_key), MARKER: services.launch_id}
    return {**kept, **told, "PYTHONUNBUFFERED": "1"}
