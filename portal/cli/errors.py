"""How a command ends: 0 done, 1 refused, 2 used wrongly, 3 the portal can't be reached."""

REFUSED = 1
USAGE = 2
UNREACHABLE = 3


class CliError(Exception):
    """A sentence for the person, and the exit status that goes with it."""

    status = REFUSED


class UsageError(CliError):
    status = USAGE


class RefusedError(CliError):
    """The portal said no. `problem` is its answer."""

    def __init__(self, text: str, problem: dict[str, object] | None = None) -> None:
        super().__init__(text)
        self.problem = problem or {}


class UnreachableError(CliError):
    status = UNREACHABLE
