#!/usr/bin/env python3
"""Django's command line: `python manage.py COMMAND`."""

import os
import sys


def main() -> None:
    """Run one command of Django or of the portal."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    if sys.argv[1:2] == ["simulate"]:
        from portal.simulations.compiled import compiled_use

        compiled_use()  # before anything imports the scheduler
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C, as shells have it
