"""What the launcher says when it can't go on: one sentence that tells what to do."""


class LaunchError(Exception):
    """A sentence for the person who typed `make run`; shown without a traceback."""
