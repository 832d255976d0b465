"""What quotas are shares of, through time: the capacity of a kept state, and whether it moves (R2).

The sum over the window of share x schedulable GPUs moves with the window: what is scheduled now
comes in at its right edge, what was at its left edge leaves. It is counted anew only when the left
edge meets a step of some budget; the right edge doesn't meet one without the board being laid out anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.balance import (
    ENDLESS,
    Capacity,
    History,
    Quota,
    Step,
    Tree,
    compute_quotas,
    has_changed,
    list_products,
    list_steps,
    sum_steps,
    value_at,
)
from scheduler.funds import are_in_proportion
from scheduler.types import PPM, Policy
from scheduler.usage import Window

if TYPE_CHECKING:
    from scheduler.state import State


class Supply:
    """The schedulable GPUs of one cluster through time, and the quotas that were made of them last."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._steps = 0  # of capacity, in the history
        self._history = History(())
        self._flow: Flow | None = None

    def forget(self) -> None:
        """Quotas were made elsewhere."""
        self._flow = None

    def history(self) -> History:
        """The steps of capacity are only ever added to."""
        if self._steps != self.state.capacity.count:
            self._steps, self._history = self.state.capacity.count, History(list_steps(self.state.capacity.view()))
        return self._history

    def make_quotas(self, tree: Tree, window: Window, policy: Policy, shares: Sequence[int]) -> list[Quota] | None:
        """R2's quotas; None: they are what they were the last time."""
        history = self.history()
        seconds = history.open_until(window.now) - history.open_until(window.since)
        if not seconds:
            self._flow = None
            return compute_quotas(tree, Capacity(history, window), policy, shares)
        if self._flow is None or window.since >= self._flow.good_until:
            self._flow = Flow(tree, policy, history, window)
            moved = True
        else:
            moved = self._flow.move(history, window)
        return self._flow.list_quotas(window, seconds) if moved or seconds != self._flow.seconds else None

    def list_weights(self) -> list[int] | None:
        """Whole numbers in the proportion of the last quotas, the same as long as they stay in it; None: not known."""
        return self._flow.weights if self._flow is not None else None

    def list_drifts(self, tree: Tree, policy: Policy, window: Window, seconds: int) -> list[int]:
        """By node: by how many GPUs x PPM^depth, at most, its quota moves in each of the next seconds (R2).

        With p(t) its share x the schedulable GPUs at t, W the seconds of the window and T those with a
        schedulable GPU, its quota is W / T x the sum of p. Where T = W it moves by what comes in at the right
        edge less what leaves at the left one. Elsewhere by W / T x the difference between p now and either
        an earlier p or their mean: by no more than the farthest of them. While no GPU is schedulable p is 0.
        """
        history = self.history()
        open_seconds = history.open_until(window.now) - history.open_until(window.since)
        now = history.gpus_at(window.now)
        since, until, times = window.since, window.since + seconds, 1
        if not now or open_seconds < window.seconds:
            since, until = max(since, history.opens_at()), window.now
            times = -(-window.seconds // max(open_seconds if now else open_seconds - seconds, 1))
        known = [gpus for gpus in history.list_gpus(since, until) if gpus]
        most, least = max(known, default=now), min(known, default=now)
        if most == least == now and not has_changed(tree, window):
            return [0] * len(tree.parent)
        products, drifts = list_products(tree, policy), []
        if not tree.changes or window.since >= tree.changes[-1]:  # shares stay as they are
            moves = times * max(most - now, now - least)
            return [moves * steps[-1][1] for steps in products]
        for steps in products:
            present = value_at(steps, window.now, 0)
            shares = [value_at(steps, since, 0), present, *(share for at, share in steps if since < at <= until)]
            drifts.append(times * max(max(shares) * most - present * now, present * now - min(shares) * least))
        return drifts


class Flow:
    """By node: the sum over the window of share x schedulable GPUs, in parts that siblings have in common."""

    def __init__(self, tree: Tree, policy: Policy, history: History, window: Window) -> None:
        products, capacity = list_products(tree, policy), Capacity(history, window)
        self._parts = _list_parts(tree, products)
        sums = [sum_steps(steps, capacity) for steps in products]
        self._totals = [total // part for total, part in zip(sums, self._parts, strict=True)]
        self._wholes = [PPM**depth // part for depth, part in zip(tree.depth, self._parts, strict=True)]
        self._comes = self._list_shares(products, window.now)
        self._leaves = self._list_shares(products, window.since)
        level = are_in_proportion(self._totals, self._comes) and are_in_proportion(self._leaves, self._comes)
        self.weights = self._comes if level else None  # what moves in a proportion stays in it
        self._edges = history.until(window.since), history.until(window.now)
        later = [at for steps in products for at, _ in steps if at > window.since]
        self.good_until = min(later, default=ENDLESS)  # the left edge of the window is before it
        self.seconds = 0  # with a schedulable GPU, in the window of the quotas that were listed last

    def _list_shares(self, products: Sequence[Sequence[Step]], moment: int) -> list[int]:
        return [value_at(steps, moment, 0) // part for steps, part in zip(products, self._parts, strict=True)]

    def move(self, history: History, window: Window) -> bool:
        """The window ends later; whether any sum has changed."""
        left, right = self._edges
        self._edges = since, now = history.until(window.since), history.until(window.now)
        lost, more = since - left, now - right
        if lost == more and (not more or self._comes == self._leaves):
            return False
        totals, leaves = self._totals, self._leaves
        for node, comes in enumerate(self._comes):
            totals[node] += comes * more - leaves[node] * lost
        return True

    def list_quotas(self, window: Window, seconds: int) -> list[Quota]:
        """R2: the sums, as if there were a schedulable GPU in the whole window as in `seconds` of it."""
        self.seconds = seconds
        if seconds == window.seconds:
            return list(zip(self._totals, self._wholes, strict=True))
        common = math.gcd(window.seconds, seconds)
        times, parts = window.seconds // common, seconds // common
        return [(total * times, whole * parts) for total, whole in zip(self._totals, self._wholes, strict=True)]


def _list_parts(tree: Tree, products: Sequence[Sequence[Step]]) -> list[int]:
    """By node: the largest part of the cluster, as 1 / PPM^depth, that divides its shares and those of its siblings."""
    parts = [1] * len(products)
    for siblings in tree.children:
        values = [value for node in siblings for _, value in products[node]]
        for node in siblings:
            parts[node] = math.gcd(PPM ** tree.depth[node], *values)
    return parts
