"""What every command shares: its flags, and how it ends."""

from collections.abc import Callable
from typing import Annotated

import typer

from portal.cli.client import Client, client_from_environment
from portal.cli.errors import CliError, RefusedError
from portal.cli.output import Format, complaint_print, json_print

ROWS_MAX = 100_000

Output = Annotated[Format, typer.Option("-o", "--output", help="table for people, json for programs.")]
WorkloadId = Annotated[int, typer.Argument(min=1, metavar="WORKLOAD", help="The workload's number.")]
ProjectFlag = Annotated[str | None, typer.Option("--project", "-P", help="A project by its path, such as lab/nlp.")]
ClusterFlag = Annotated[str | None, typer.Option("--cluster", help="A cluster by its name.")]


def guarded(action: Callable[[Client], None], output: Format = Format.table) -> None:
    """Run what a command does; say what went wrong in a sentence, and leave with its status."""
    try:
        with client_from_environment() as client:
            action(client)
    except RefusedError as error:
        if output is Format.json and error.problem:
            json_print(error.problem)
        complaint_print(str(error))
        raise typer.Exit(error.status) from None
    except CliError as error:
        complaint_print(str(error))
        raise typer.Exit(error.status) from None
