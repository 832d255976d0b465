"""For every project: the most that one more start of its own work may ask, as arrays.

The array form of the tests in `balance.Funds`: it leaves out at once what can't be funded.
"""

from __future__ import annotations

import numpy as np

from scheduler.funds import Funds
from scheduler.types import NEVER

ENDLESS = 1 << 62
"""More than anything that can be asked."""


class Limits:
    """Each array is by project and holds the tightest limit on its path, the root excepted.

    `balance`, `margin`: every node is above 0 / above the margin of a return. `contract`,
    `express`: GPU-seconds, `burst`: GPUs that still fit; -1 when nothing does. Contracts of
    reservations count in them (R12). `cap`: the lowest burst cap, in GPUs.
    """

    def __init__(self, funds: Funds) -> None:
        tree, usage, reserved = funds.tree, funds.usage, funds.reserved
        positive, back, overdraw = funds.positive_limit, funds.return_limit, funds.contract_limit
        nothing = (True, True, ENDLESS, ENDLESS, ENDLESS, ENDLESS)
        found = [nothing] * len(tree.parent)
        for node in tree.top_down:
            if node != tree.root:
                balance, margin, contract, express, burst, cap = found[tree.parent[node]]
                used = usage[node] + reserved[node]
                if funds.burst[node] != NEVER:
                    burst = min(burst, funds.burst[node] - funds.allocated[node])
                    cap = min(cap, funds.burst[node])
                found[node] = (
                    balance and used <= positive[node],
                    margin and used <= back[node],
                    min(contract, overdraw[node] - used),
                    min(express, funds.express_limit[node] - funds.express[node]),
                    burst,
                    cap,
                )
        rows = [found[leaf] for leaf in tree.leaf_of]
        columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
        self.balance, self.margin = columns[0].astype(bool), columns[1].astype(bool)
        self.contract, self.express, self.burst = (np.maximum(column, -1) for column in columns[2:5])
        self.cap = columns[5]
