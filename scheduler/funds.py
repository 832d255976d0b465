"""What every node may still be charged: the tests of R5 to R7 and R9 (c), as whole-number limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.balance import Quota, Tree, list_present_shares, prepare_order, value_at
from scheduler.types import NEVER, PPM, Code, Policy


@dataclass(slots=True)
class Funds:
    """What every node may still be charged, as whole-number limits on its usage.

    A node is *never funded* when it has no share now or its quota is 0: all limits are -1,
    so every test against them fails and it sorts last (R2).
    """

    tree: Tree
    quotas: list[Quota]
    usage: list[int]  # U: charged in the window plus unserved minimum runtimes, GPU-seconds
    allocated: list[int]  # GPUs running or held as protected or funded
    express: list[int]  # express GPU-seconds of the window
    shares: list[int] = field(default_factory=list)  # of the cluster now, see list_present_shares
    never: list[bool] = field(default_factory=list)
    burst: list[int] = field(default_factory=list)  # cap in GPUs, NEVER: none
    order_unit: list[int] = field(default_factory=list)
    order_weight: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)  # contracts of reservations, GPU-seconds (R12)
    reserved_gpus: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by node: (from when, GPUs)
    _policy: Policy = field(default_factory=Policy)
    _ratio: list[float] = field(default_factory=list)  # this and the next four: see below; empty: not known
    _positive: list[int] = field(default_factory=list)
    _return: list[int] = field(default_factory=list)
    _contract: list[int] = field(default_factory=list)
    _express: list[int] = field(default_factory=list)
    asked: set[tuple[int, int]] = field(default_factory=set)  # (node, charge) that were compared with their siblings
    version: int = 0  # counts the changes
    told: dict[int, tuple[int, int]] = field(default_factory=dict)  # node: (usage, its balance in ppm)
    weights: list[int] = field(default_factory=list)  # what the order of siblings was prepared from
    _compared_at: int = -1  # the version for which the next three are known
    _highest: dict[int, float] = field(default_factory=dict)  # by parent: see _find_highest
    _any_never: dict[int, bool] = field(default_factory=dict)  # by parent: some of its children are never funded
    _least_vain: dict[int, int] = field(default_factory=dict)  # by node: the least charge at which it led nobody

    def set_limits(self, now: int, policy: Policy) -> None:
        """All limits, for the shares and caps of that moment."""
        self.shares = list_present_shares(self.tree, now)
        self.reserved = self.reserved or [0] * len(self.quotas)
        self.burst = [value_at(steps, now, before=NEVER) for steps in self.tree.burst_steps]
        self.set_quotas(self.quotas, policy)

    def set_quotas(self, quotas: list[Quota], policy: Policy, weights: list[int] | None = None) -> None:
        """Limits are worked out when somebody asks. `weights`: in the proportion of the quotas, if known."""
        self.quotas, self._policy = quotas, policy
        self._positive, self._return, self._contract, self._express = [], [], [], []
        self.told.clear()
        self.never = [not (top and share) for (top, _), share in zip(quotas, self.shares, strict=True)]
        if weights is None or [not weight for weight in weights] != self.never:
            weights = [0 if none else top for none, (top, _) in zip(self.never, quotas, strict=True)]
        if not are_in_proportion(weights, self.weights):
            self.order_unit, self.order_weight = prepare_order(self.tree, weights)
        self.weights = weights
        self.recount()

    @property
    def positive_limit(self) -> list[int]:
        """By node: balance > 0  <=>  U <= limit."""
        if not self._positive:
            self._positive = self._list_limits(PPM, below=1)
        return self._positive

    @property
    def return_limit(self) -> list[int]:
        """By node: balance > margin (policy)  <=>  U <= limit."""
        if not self._return:
            self._return = self._list_limits(PPM - self._policy.return_margin_ppm, below=1)
        return self._return

    @property
    def contract_limit(self) -> list[int]:
        """By node: balance >= -1 (policy)  <=>  U <= limit."""
        if not self._contract:
            self._contract = self._list_limits(PPM + self._policy.overdraw_limit_ppm)
        return self._contract

    @property
    def express_limit(self) -> list[int]:
        """By node: express starts within their share (policy)  <=>  E <= limit."""
        if not self._express:
            self._express = self._list_limits(self._policy.express_share_ppm)
        return self._express

    def _list_limits(self, ppm: int, below: int = 0) -> list[int]:
        """The largest whole number up to that part of each quota (1: below it); nothing is rounded away."""
        common, limits = math.gcd(ppm, PPM), [-1] * len(self.quotas)
        times, parts = ppm // common, PPM // common
        for node, (top, bottom) in enumerate(self.quotas):
            if not self.never[node]:
                limits[node] = (times * top - below) // (parts * bottom)
        return limits

    def recount(self) -> None:
        """Usage is given anew."""
        self.version += 1
        self._ratio.clear()

    @property
    def ratio(self) -> list[float]:
        """By node: usage / quota, nearly: what plainly differs needs no exact test."""
        if not self._ratio:
            self._ratio = [
                math.inf if never else used * bottom / top
                for never, used, (top, bottom) in zip(self.never, self.usage, self.quotas, strict=True)
            ]
        return self._ratio

    def order_key(self, node: int) -> tuple[int, int]:
        """Sorts siblings by balance, highest first: equal keys are exactly equal balances."""
        weight = self.order_weight[node]
        return (0, self.usage[node] * self.order_unit[node] // weight) if weight else (1, 0)

    def charge(self, path: Sequence[int], gpu_seconds: int, gpus: int) -> None:
        """Balances follow a start or a return; negative numbers take it back."""
        self.version += 1
        for node in path:
            self.usage[node] += gpu_seconds
            self.allocated[node] += gpus
            if self._ratio and not self.never[node]:
                self._ratio[node] = self._near(node, self.usage[node])

    def count_express(self, path: Sequence[int], gpu_seconds: int) -> None:
        """An express start uses up part of the express share of its path."""
        self.version += 1
        for node in path:
            self.express[node] += gpu_seconds

    def reserve(self, path: Sequence[int], contract: int, gpus: int, at: int, sign: int = 1) -> None:
        """R12: a reservation's contract counts in R7's tests of others, its GPUs under the caps from its time on."""
        self.version += 1
        for node in path:
            self.reserved[node] += sign * contract
            if sign > 0:
                self.reserved_gpus.setdefault(node, []).append((at, gpus))
            else:
                self.reserved_gpus[node].remove((at, gpus))

    def unreserve(self) -> None:
        """No reservation counts any longer."""
        self.version += 1
        self.reserved = [0] * len(self.quotas)
        self.reserved_gpus.clear()

    def find_lack(self, node: int, gpus: int, ends_at: int) -> int:
        """GPUs that lack under the node's burst cap, for work whose minimum runtime ends then; 0: none."""
        if self.burst[node] == NEVER:
            return 0
        lack = self.allocated[node] + gpus - self.burst[node]
        for at, count in self.reserved_gpus.get(node, ()):
            if at < ends_at:
                lack += count
        return max(lack, 0)

    def find_obstacle(self, path: Sequence[int], gpus: int, contract: int, ends_at: int) -> tuple[int, Code] | None:
        """The first node, top down, for which R7 does not fund a start of `contract` GPU-seconds."""
        usage, reserved, positive, most = self.usage, self.reserved, self.positive_limit, self.contract_limit
        for node in path:
            if usage[node] + reserved[node] > positive[node]:
                return node, Code.NO_BUDGET if self.never[node] else Code.UNFUNDED
        for node in path:
            if self.burst[node] != NEVER and self.find_lack(node, gpus, ends_at):
                return node, Code.BURST_CAP
            if usage[node] + reserved[node] + contract > most[node]:
                return node, Code.CONTRACT_OVER_BALANCE
        return None

    def can_fund(self, path: Sequence[int], gpus: int, contract: int, ends_at: int) -> bool:
        """R7 for a start: balance above 0, burst room, no balance below the overdraw limit."""
        return self.find_obstacle(path, gpus, contract, ends_at) is None

    def can_return(self, path: Sequence[int], gpus: int, remainder: int, ends_at: int) -> bool:
        """R6 for a return: balance above the margin, and R7 funds what is left of the contract."""
        for node in path:
            if self.usage[node] + self.reserved[node] > self.return_limit[node]:
                return False
        return self.can_fund(path, gpus, remainder, ends_at)

    def can_express(self, path: Sequence[int], gpus: int, counted: int, ends_at: int) -> bool:
        """R7, express: whatever the balance, under burst caps, within the express share."""
        for node in path:
            if self.express[node] + counted > self.express_limit[node]:
                return False
            if self.burst[node] != NEVER and self.find_lack(node, gpus, ends_at):
                return False
        return True

    def leads(self, node: int, charge: int, other: int, margin_ppm: int) -> bool:
        """R9 (c): charged for `charge` GPU-seconds more, `node` still has the higher balance by the margin.

        Exact: U'/Q' - (U + charge)/Q >= margin, on whole numbers. Who is never funded never leads,
        and is led by everybody else.
        """
        if self.never[node] or self.never[other]:
            return not self.never[node]
        top, bottom = self.quotas[node]
        other_top, other_bottom = self.quotas[other]
        exact = self.usage[other] * other_bottom * top - (self.usage[node] + charge) * bottom * other_top
        return PPM * exact >= margin_ppm * top * other_top

    def list_led(self, node: int, charge: int, others: Sequence[int], margin_ppm: int) -> list[int]:
        """Those of these siblings that the node leads; only ratios too near to tell apart are compared exactly."""
        if self.never[node]:
            return []
        if self._compared_at != self.version:
            self._compare_anew()
        vain = self._least_vain.get(node)
        if vain is not None and charge >= vain:
            return self._list_never(node, others)
        least = self._near(node, self.usage[node] + charge) + margin_ppm / PPM
        slack, ratio = NEAR * (2 * least + 1), self.ratio
        low, high = least - slack, least + slack
        if self._find_highest(self.tree.parent[node]) < low:
            # Nor would it lead any of them if charged for more: only the least charge counts as asked.
            if vain is not None:
                self.asked.discard((node, vain))
            self.asked.add((node, charge))
            self._least_vain[node] = charge
            return self._list_never(node, others)
        self.asked.add((node, charge))
        return [
            other
            for other in others
            if ratio[other] >= low
            and other != node
            and (ratio[other] > high or self.leads(node, charge, other, margin_ppm))
        ]

    def _compare_anew(self) -> None:
        """Balances have changed."""
        self._compared_at = self.version
        self._highest.clear()
        self._least_vain.clear()

    def _find_highest(self, parent: int) -> float:
        """The highest ratio of the node's children, but for those that are never funded."""
        highest = self._highest.get(parent)
        if highest is None:
            ratio, children = self.ratio, self.tree.children[parent]
            ratios = [ratio[child] for child in children if not self.never[child]]
            highest = self._highest[parent] = max(ratios, default=0.0)
            self._any_never[parent] = len(ratios) < len(children)
        return highest

    def _list_never(self, node: int, others: Sequence[int]) -> list[int]:
        """Whom even a node leads that leads nobody who is ever funded."""
        if not self._any_never[self.tree.parent[node]]:
            return []
        return [other for other in others if self.never[other] and other != node]

    def _near(self, node: int, used: int) -> float:
        top, bottom = self.quotas[node]
        return used * bottom / top

    def balance_ppm(self, node: int) -> int | None:
        """Balance b = (Q - U) / Q in ppm, rounded down; None: never funded."""
        if self.never[node]:
            return None
        used, known = self.told.get(node, (-1, 0))
        if used != self.usage[node]:
            top, bottom = self.quotas[node]
            known = (top - self.usage[node] * bottom) * PPM // top
            self.told[node] = self.usage[node], known
        return known


def are_in_proportion(new: Sequence[int], old: Sequence[int]) -> bool:
    """Whether one factor turns all old weights into the new ones: they order siblings alike."""
    if new == old:
        return True
    scale, known = sum(new), sum(old)
    if len(new) != len(old) or not known:
        return False
    return [weight * known for weight in new] == [weight * scale for weight in old]


NEAR = 1e-9
"""Ratios that differ by more than this, relatively, differ; nearer ones are compared exactly."""
