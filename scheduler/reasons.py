"""Why something is done or waits, as data (R16). Words are made by `explain.words`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Why something is done or waits (R16). Words are made by `explain.words`."""

    # starts
    EXPRESS = "express"
    FUNDED = "funded"
    UNFUNDED_START = "unfunded_start"
    ZERO_MIN_RUNTIME = "zero_min_runtime"
    # changes of what runs
    TAKEN = "taken"
    TAKEN_LOWER_PRIORITY = "taken_lower_priority"
    TAKEN_LESS_DESERVING = "taken_less_deserving"
    RECOVERED = "recovered"
    CONTRACT_DONE = "contract_done"
    BALANCE_SPENT = "balance_spent"
    GPUS_FREE = "gpus_free"
    NOT_RUNNING_IN_TIME = "not_running_in_time"
    HOST_LOST = "host_lost"
    HOST_SILENT = "host_silent"
    DRAINED = "drained"
    # reservations
    RESERVED_HEAD = "reserved_head"
    RESERVED_START = "reserved_start"
    RESERVED_HOST_LOST = "reserved_host_lost"
    EXPRESS_MOVES = "express_moves"
    BURST_ROOM = "burst_room"
    UNRESERVED_START = "unreserved_start"
    # waits
    RESERVED = "reserved"
    CONTRACT_TOO_LARGE = "contract_too_large"
    UNFUNDED = "unfunded"
    NO_BUDGET = "no_budget"
    CONTRACT_OVER_BALANCE = "contract_over_balance"
    BURST_CAP = "burst_cap"
    WAITING_TURN = "waiting_turn"
    FULL_OF_PROTECTED = "full_of_protected"
    UNALLOCATED_QUEUE = "unallocated_queue"
    UNALLOCATED_CAP = "unallocated_cap"
    NO_HOST_OF_SIZE = "no_host_of_size"
    NO_SCHEDULABLE_HOST = "no_schedulable_host"


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and its numbers. Names end in their unit or say what id they are."""

    code: Code
    numbers: tuple[tuple[str, int], ...] = ()

    def as_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return dict(self.numbers)


def reason(code: Code, **numbers: int) -> Reason:
    """A reason whose numbers stand in the order given, as plain ints."""
    return Reason(code, tuple([(name, int(value)) for name, value in numbers.items()]))
