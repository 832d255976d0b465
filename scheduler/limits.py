"""What one more start of a project's own work may ask, by the limits of `Funds` on its path, the root excepted.

Contracts of reservations count in what was used (R12). Rooms are -1 where nothing fits, and ENDLESS on an empty path.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.funds import Funds
from scheduler.types import NEVER

ENDLESS = 1 << 62
"""More than anything that can be asked."""

Path = Sequence[int]


def is_positive(funds: Funds, path: Path) -> bool:
    """R7: every balance is above 0."""
    limit, usage, reserved = funds.positive_limit, funds.usage, funds.reserved
    return all(usage[node] + reserved[node] <= limit[node] for node in path)


def list_positive(funds: Funds) -> list[bool]:
    """R7, by project: every balance on its path is above 0."""
    return _list_within(funds, funds.positive_limit)


def list_above_margin(funds: Funds) -> list[bool]:
    """R6, by project: every balance on its path is above the margin of a return."""
    return _list_within(funds, funds.return_limit)


def _list_within(funds: Funds, limit: Sequence[int]) -> list[bool]:
    tree, usage, reserved = funds.tree, funds.usage, funds.reserved
    within = [True] * len(tree.parent)
    for node in tree.top_down:
        if node != tree.root:
            within[node] = within[tree.parent[node]] and usage[node] + reserved[node] <= limit[node]
    return [within[leaf] for leaf in tree.leaf_of]


def find_contract_room(funds: Funds, path: Path) -> int:
    """R7: GPU-seconds that can be charged before some balance is below the overdraw limit."""
    room = ENDLESS
    for node in path:
        room = min(room, funds.contract_limit[node] - funds.usage[node] - funds.reserved[node])
    return max(room, -1)


def find_express_room(funds: Funds, path: Path) -> int:
    """R7: GPU-seconds that express starts may still use."""
    room = ENDLESS
    for node in path:
        room = min(room, funds.express_limit[node] - funds.express[node])
    return max(room, -1)


def find_burst_room(funds: Funds, path: Path) -> int:
    """R7: GPUs that may still be allocated under every burst cap, reservations for later aside."""
    room = ENDLESS
    for node in path:
        if funds.burst[node] != NEVER:
            room = min(room, funds.burst[node] - funds.allocated[node])
    return max(room, -1)


def find_cap(funds: Funds, path: Path) -> int:
    """R7: the lowest burst cap, in GPUs."""
    return min((funds.burst[node] for node in path if funds.burst[node] != NEVER), default=ENDLESS)
