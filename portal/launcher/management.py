"""`python -m portal.launcher manage COMMAND...`: manage.py on the portal that runs on this data folder."""

import os
from typing import NoReturn

from portal.launcher import table
from portal.launcher.errors import LaunchError
from portal.launcher.folder import Folder
from portal.launcher.identity import folder_owner_become
from portal.launcher.options import Options
from portal.launcher.postgres import database_url
from portal.launcher.services import BROKER_NAME, DATABASE_NAME, key_variables
from portal.launcher.valkey import PORTAL_USER, SOCKET_NAME, broker_url


def manage(options: Options, arguments: list[str]) -> NoReturn:
    """Become manage.py, as the user who launched and with what the web process is told."""
    folder_owner_become(options.data_folder)
    folder = Folder(options.data_folder)
    running_require(folder)
    command = table.manage(*arguments)
    os.execve(command[0], command, {**os.environ, **variables(folder)})  # noqa: S606 - no shell is wanted


def running_require(folder: Folder) -> None:
    """Database and broker are up only while the portal runs."""
    if folder.root.is_dir():
        folder.owner_check()
    if folder.running() is None:
        raise LaunchError(
            f"GPU Commons doesn't run on {folder.root}; start it there first (make run), or name the folder that it "
            "runs on: make manage DATA_DIR=/path/to/folder ARGS='COMMAND'"
        )


def variables(folder: Folder) -> dict[str, str]:
    """Addresses and keys of the running portal; the environment's database and broker come first, as at the start."""
    broker = broker_url(folder.sockets / SOCKET_NAME, PORTAL_USER, folder.secret("broker-portal"))
    return {
        DATABASE_NAME: os.environ.get(DATABASE_NAME) or database_url(folder.sockets),
        BROKER_NAME: os.environ.get(BROKER_NAME) or broker,
        **key_variables(folder),
    }
