"""`python -m portal.agent init --dir D --name N [--gpus 8]` and `python -m portal.agent run --dir D`."""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from portal.agent.gpus import SIMULATED_GPUS
from portal.agent.host import HostError, host_init, host_read


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and do it; trouble is one sentence on standard error."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "init":
            print(json.dumps(host_init(options.dir, options.name, options.gpus)))
        else:
            run(options.dir)
    except HostError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    commands = argparse.ArgumentParser(prog="python -m portal.agent", description="GPU Commons' agent on a GPU host.")
    parts = commands.add_subparsers(dest="command", required=True)
    init = parts.add_parser("init", help="make the host's folder and key, print what to register")
    init.add_argument("--dir", type=Path, required=True, help="the agent's folder")
    init.add_argument("--name", required=True, help="the host's name in the portal")
    init.add_argument(
        "--gpus", type=int, default=SIMULATED_GPUS, help="simulated GPUs to declare where there is no NVIDIA driver"
    )
    start = parts.add_parser("run", help="run the agent: BROKER_URL and PORTAL_PUBLIC_KEY_FILE in the environment")
    start.add_argument("--dir", type=Path, required=True, help="the agent's folder")
    return commands


def run(folder: Path) -> None:
    """Run the agent; the broker's address leaves the environment before anything is started."""
    from portal.agent import worker

    broker_url = os.environ.pop("BROKER_URL", "")
    public_key_file = os.environ.get("PORTAL_PUBLIC_KEY_FILE", "")
    if not broker_url or not public_key_file:
        raise HostError("Set BROKER_URL (this host's own user) and PORTAL_PUBLIC_KEY_FILE in the environment.")
    if not Path(public_key_file).exists():
        raise HostError(f"PORTAL_PUBLIC_KEY_FILE {public_key_file} does not exist; copy the portal's public key there.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    worker.run(host_read(folder.resolve()), Path(public_key_file), broker_url)


if __name__ == "__main__":
    sys.exit(main())
