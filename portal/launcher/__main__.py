"""`python -m portal.launcher`, which is `make run`."""

import sys

from portal.launcher.errors import LaunchError
from portal.launcher.launch import launch
from portal.launcher.options import options_read
from portal.launcher.supervisor import say


def main() -> int:
    """Exit code 0 when stopped by the user, 1 with a sentence when something is wrong."""
    try:
        launch(options_read())
    except LaunchError as error:
        say(f"make run: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
