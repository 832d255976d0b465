"""`python -m portal.launcher`, which is `make run`; with `manage COMMAND` it is manage.py on what runs."""

import sys

from portal.launcher.errors import LaunchError
from portal.launcher.host_users import broker_user_add
from portal.launcher.launch import launch
from portal.launcher.management import manage
from portal.launcher.options import options_read
from portal.launcher.supervisor import say


def main() -> int:
    """Exit code 0 when stopped by the user, 1 with a sentence when something is wrong."""
    try:
        if sys.argv[1:2] == ["manage"]:
            manage(options_read(), sys.argv[2:])
        if sys.argv[1:2] == ["broker-user"] and len(sys.argv) == 3:
            broker_user_add(options_read(), sys.argv[2])
        elif sys.argv[1:]:
            raise LaunchError("say nothing more to start, or: manage COMMAND..., or: broker-user HOST")
        else:
            launch(options_read())
    except LaunchError as error:
        say(f"make run: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
