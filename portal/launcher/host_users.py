"""Further hosts of the embedded default: `python -m portal.launcher broker-user HOST` lets one onto the broker."""

from portal.common import messages
from portal.launcher.errors import LaunchError
from portal.launcher.folder import Folder
from portal.launcher.host import PUBLIC_KEY_NAME, host_user
from portal.launcher.identity import folder_owner_become
from portal.launcher.management import running_require
from portal.launcher.options import Options
from portal.launcher.supervisor import say
from portal.launcher.valkey import LAUNCHER_USER, SOCKET_NAME, BrokerUser, broker_url, client_of

FOLDER_NAME = "broker-hosts"


def broker_user_add(options: Options, host: str) -> None:
    """Let a host in at once and at every later start, and print what its agent must be told."""
    if not messages.HOST_NAME.fullmatch(host):
        raise LaunchError(f"{host[:100]!r} is no host name: letters, digits, '.', '-' and '_', at most 100.")
    folder_owner_become(options.data_folder)
    folder = Folder(options.data_folder)
    running_require(folder)
    socket = folder.sockets / SOCKET_NAME
    if not socket.exists():
        raise LaunchError("The broker is not ours: BROKER_URL names it, so make the user there (see add-a-host.md).")
    (folder.secrets / FOLDER_NAME).mkdir(mode=0o700, exist_ok=True)
    user = further_user(folder, host)
    with client_of(socket, LAUNCHER_USER, folder.secret("broker-launcher")) as client:
        client.execute_command("ACL", "SETUSER", user.name, *user.words())
        client.execute_command("ACL", "SAVE")
    say(f"BROKER_URL='{broker_url(socket, user.name, user.password)}'")
    say(f"PORTAL_PUBLIC_KEY_FILE='{folder.agent / PUBLIC_KEY_NAME}'")


def host_users(folder: Folder) -> list[BrokerUser]:
    """This machine's host, and those that were let in."""
    kept = sorted((folder.secrets / FOLDER_NAME).glob("*"))
    names = [path.name for path in kept if messages.HOST_NAME.fullmatch(path.name) and path.suffix != ".new"]
    own = host_user(folder)
    return [own, *(user for name in names if (user := further_user(folder, name)).name != own.name)]


def further_user(folder: Folder, host: str) -> BrokerUser:
    """A host's user, with the password that the folder keeps of it."""
    password = folder.secret(f"{FOLDER_NAME}/{host}")
    return BrokerUser(messages.broker_user(host), password, messages.broker_acl_rules(host))
