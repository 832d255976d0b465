"""`python -m portal.cli`: the same as `commons`."""

from portal.cli.main import main

main()
