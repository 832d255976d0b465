"""What an attempt's time counts as."""

from __future__ import annotations

from enum import IntEnum


class Standing(IntEnum):
    """What an attempt's present time counts as (SPEC.md section 3, R4 to R6, R11)."""

    PROTECTED = 1
    FUNDED = 2
    UNALLOCATED = 3
    STOPPING = 4


ALLOCATED = (Standing.PROTECTED, Standing.FUNDED)
"""The standings that are charged to the budget."""
