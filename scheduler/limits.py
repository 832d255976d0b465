"""For every project: the most that one more start of its own work may ask, as arrays.

The array form of the tests in `balance.Funds`: it leaves out at once what can't be funded.
"""

from __future__ import annotations

import numpy as np

from scheduler.balance import Funds
from scheduler.types import NEVER

ENDLESS = 1 << 62
"""More than anything that can be asked."""


class Limits:
    """Each array is by project and holds the tightest limit on its path, the root excepted.

    `balance`, `margin`: every node is above 0 / above the margin of a return. `contract`,
    `express`: GPU-seconds, `burst`: GPUs that still fit; -1 when nothing does. Contracts of
    reservations count in them (R12), but not in `solvent`: every node is above 0. `cap`: the
    lowest burst cap, in GPUs.
    """

    def __init__(self, funds: Funds) -> None:
        tree = funds.tree
        balance, margin, solvent = ([True] * len(tree.parent) for _ in range(3))
        contract, express, burst, cap = ([ENDLESS] * len(tree.parent) for _ in range(4))
        for node in tree.top_down:
            if node == tree.root:
                continue
            above, used = tree.parent[node], funds.usage[node]
            solvent[node] = solvent[above] and used <= funds.positive_limit[node]
            used += funds.reserved[node]
            balance[node] = balance[above] and used <= funds.positive_limit[node]
            margin[node] = margin[above] and used <= funds.return_limit[node]
            contract[node] = min(contract[above], funds.contract_limit[node] - used)
            express[node] = min(express[above], funds.express_limit[node] - funds.express[node])
            room = ENDLESS if funds.burst[node] == NEVER else funds.burst[node] - funds.allocated[node]
            burst[node] = min(burst[above], room)
            cap[node] = cap[above] if funds.burst[node] == NEVER else min(cap[above], funds.burst[node])
        self.balance = np.array([balance[leaf] for leaf in tree.leaf_of], dtype=bool)
        self.solvent = np.array([solvent[leaf] for leaf in tree.leaf_of], dtype=bool)
        self.cap = np.array([cap[leaf] for leaf in tree.leaf_of], dtype=np.int64)
        self.margin = np.array([margin[leaf] for leaf in tree.leaf_of], dtype=bool)
        self.contract = np.array([max(contract[leaf], -1) for leaf in tree.leaf_of], dtype=np.int64)
        self.express = np.array([max(express[leaf], -1) for leaf in tree.leaf_of], dtype=np.int64)
        self.burst = np.array([max(burst[leaf], -1) for leaf in tree.leaf_of], dtype=np.int64)
