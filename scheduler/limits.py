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
            if node == tree.root:
                continue
            # min() is left aside here: these are asked for in every decision, often twice
            balance, margin, contract, express, burst, cap = found[tree.parent[node]]
            used = usage[node] + reserved[node]
            if (left := overdraw[node] - used) < contract:
                contract = left
            if (left := funds.express_limit[node] - funds.express[node]) < express:
                express = left
            if (most := funds.burst[node]) != NEVER:
                burst, cap = min(burst, most - funds.allocated[node]), min(cap, most)
            found[node] = (
                balance and used <= positive[node],
                margin and used <= back[node],
                contract,
                express,
                burst,
                cap,
            )
        rows = [found[leaf] for leaf in tree.leaf_of]
        columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
        self.balance, self.margin = columns[0].astype(bool), columns[1].astype(bool)
        self.contract, self.express, self.burst = (np.maximum(column, -1) for column in columns[2:5])
        self.cap = columns[5]
