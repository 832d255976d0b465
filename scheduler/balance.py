"""Quota, usage and balance down the project tree; exact comparison (R1, R2, R7).

A *node* is a project, or what a project with children holds for its own workloads ("own"),
which stands beside its children as if it were one more child (R1).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scheduler.types import NEVER, PPM, CapacitySteps, Policy, Projects, ShareSteps, SnapshotRefused
from scheduler.usage import Window, round_once, weigh_until

Step = tuple[int, int]  # (at, value from then on)
Piece = tuple[int, int, int]  # (from, to, value between)

ENDLESS = 1 << 62
"""Later than any moment."""


@dataclass(slots=True)
class Tree:
    """Nodes by number: first the projects by index, then the own nodes."""

    root: int
    parent: list[int]
    children: list[list[int]]
    depth: list[int]  # 0 at the root
    project_of: list[int]
    leaf_of: list[int]  # by project: the node its own workloads belong to
    path_of: list[tuple[int, ...]]  # by project: nodes below the root, top first, its leaf last
    top_down: list[int]  # every node after its parent
    steps: list[list[Step]]  # share of the parent's share, ppm
    burst_steps: list[list[Step]]
    products: tuple[int, list[list[Step]]] | None = None  # see list_products
    below: dict[int, list[int]] = field(default_factory=dict)  # see list_below
    changes: list[int] = field(default_factory=list)  # every moment at which a share changed, in order

    def list_below(self) -> dict[int, list[int]]:
        """The projects whose own workloads belong to each node's subtree, the root excepted."""
        if not self.below:
            for project, path in enumerate(self.path_of):
                for node in path:
                    self.below.setdefault(node, []).append(project)
        return self.below

    def is_own(self, node: int) -> bool:
        """Whether the node is a parent's own part."""
        return node >= len(self.leaf_of)


def build_tree(projects: Projects, shares: ShareSteps) -> Tree:
    """The nodes and their budgets through time. One root, no loops, else SnapshotRefused."""
    parent = [int(value) for value in projects.parent]
    count = len(parent)
    roots = [index for index in range(count) if parent[index] == NEVER]
    if len(roots) != 1:
        raise SnapshotRefused(f"the project tree has {len(roots)} roots, not 1")
    children: list[list[int]] = [[] for _ in range(count)]
    for index, above in enumerate(parent):
        if above != NEVER:
            children[above].append(index)
    project_of = list(range(count))
    leaf_of = list(range(count))
    for project in range(count):
        if children[project]:
            leaf_of[project] = len(parent)
            children[project].append(len(parent))
            children.append([])
            parent.append(project)
            project_of.append(project)
    tree = Tree(roots[0], parent, children, [0] * len(parent), project_of, leaf_of, [], [], [], [])
    _walk_down(tree)
    if len(tree.top_down) != len(parent):
        raise SnapshotRefused("the project tree has a loop")
    tree.path_of = [_list_path(tree, leaf) for leaf in leaf_of]
    _read_steps(tree, shares)
    return tree


def _walk_down(tree: Tree) -> None:
    todo = [tree.root]
    while todo:
        node = todo.pop()
        tree.top_down.append(node)
        for child in tree.children[node]:
            tree.depth[child] = tree.depth[node] + 1
            todo.append(child)


def _list_path(tree: Tree, node: int) -> tuple[int, ...]:
    path = []
    while node != tree.root:
        path.append(node)
        node = tree.parent[node]
    return tuple(reversed(path))


def _read_steps(tree: Tree, shares: ShareSteps) -> None:
    tree.steps = [[] for _ in tree.parent]
    tree.burst_steps = [[] for _ in tree.parent]
    rows = zip(
        shares.project.tolist(), shares.at.tolist(), shares.share_ppm.tolist(), shares.burst_gpus.tolist(), strict=True
    )
    for project, at, share, burst in sorted(rows):
        if not 0 <= share <= PPM:
            raise SnapshotRefused(f"a share of {share} ppm is outside 0 to {PPM}")
        tree.steps[project].append((at, share))
        tree.burst_steps[project].append((at, burst))
    for node in range(len(tree.leaf_of), len(tree.parent)):
        tree.steps[node] = _own_steps(tree, node)
    tree.changes = sorted({int(at) for at in shares.at})


def _own_steps(tree: Tree, own: int) -> list[Step]:
    """What the children leave: 100 % less their sum, at each change of one of them (R1)."""
    changes = sorted(
        (at, child, share)
        for child in tree.children[tree.parent[own]]
        if child != own
        for at, share in tree.steps[child]
    )
    present: dict[int, int] = {}
    steps = [(-1, PPM)]
    for at, child, share in changes:
        present[child] = share
        steps.append((at, max(PPM - sum(present.values()), 0)))
    return steps


def value_at(steps: Sequence[Step], moment: int, before: int) -> int:
    """The value in force at `moment`; `before` if the first step is later."""
    index = bisect_right(steps, moment, key=lambda step: step[0])
    return steps[index - 1][1] if index else before


def cut_pieces(steps: Sequence[Step], window: Window, before: int) -> list[Piece]:
    """The step function over the window as (from, to, value), without empty pieces."""
    inside = [at for at, _ in steps if window.since < at < window.now]
    edges = [window.since, *sorted(set(inside)), window.now]
    return [(low, high, value_at(steps, low, before)) for low, high in zip(edges, edges[1:], strict=False)]


def multiply_pieces(first: Sequence[Piece], second: Sequence[Piece]) -> list[Piece]:
    """Product of two step functions over the same window."""
    product, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low < high:
            product.append((low, high, first[i][2] * second[j][2]))
        if first[i][1] <= high:
            i += 1
        if j < len(second) and second[j][1] <= high:
            j += 1
    return product


class History:
    """Schedulable GPUs of the cluster through all known time: exact integrals from the first step on."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = sorted(steps)
        self._at = [at for at, _ in self.steps]
        self._gpus = [gpus for _, gpus in self.steps]
        self._sums, self._open = [0], [0]
        for at, later, gpus in zip(self._at, self._at[1:], self._gpus, strict=False):
            self._sums.append(self._sums[-1] + (later - at) * gpus)
            self._open.append(self._open[-1] + (later - at) * (gpus > 0))

    def gpus_at(self, moment: int) -> int:
        """Schedulable GPUs from that moment on; 0 before the first step."""
        index = bisect_right(self._at, moment)
        return self._gpus[index - 1] if index else 0

    def opens_at(self) -> int:
        """When the first GPU was schedulable; ENDLESS: never yet."""
        return next((at for at, gpus in self.steps if gpus), ENDLESS)

    def list_gpus(self, since: int, until: int) -> list[int]:
        """Every number of schedulable GPUs that there is in [since, until]."""
        return [self.gpus_at(since), *self._gpus[bisect_right(self._at, since) : bisect_right(self._at, until)]]

    def until(self, moment: int) -> int:
        """GPU-seconds before that moment."""
        index = bisect_right(self._at, moment) - 1
        return self._sums[index] + (moment - self._at[index]) * self._gpus[index] if index >= 0 else 0

    def open_until(self, moment: int) -> int:
        """Seconds before that moment in which some GPU was schedulable."""
        index = bisect_right(self._at, moment) - 1
        return self._open[index] + (moment - self._at[index]) * (self._gpus[index] > 0) if index >= 0 else 0


def list_steps(capacity: CapacitySteps) -> list[Step]:
    """The table of schedulable GPUs as (from when, GPUs)."""
    return list(zip(capacity.at.tolist(), capacity.gpus.tolist(), strict=True))


class Capacity:
    """The same as one window sees it."""

    def __init__(self, known: History | Sequence[Step], window: Window) -> None:
        self.window = window
        self._history = known if isinstance(known, History) else History(known)
        self.seconds = self._history.open_until(window.now) - self._history.open_until(window.since)
        self.gpus_now = self._history.gpus_at(window.now)

        self._until: dict[int, int] = {}  # GPU-seconds before a moment: the steps of budgets are few

    def between(self, low: int, high: int) -> int:
        """GPU-seconds in [low, high], inside the window."""
        return self.until(high) - self.until(low)

    def until(self, moment: int) -> int:
        """GPU-seconds before a moment."""
        known = self._until.get(moment)
        if known is None:
            known = self._until[moment] = self._history.until(moment)
        return known

    def cut_pieces(self) -> list[Piece]:
        """The schedulable GPUs as (from, to, GPUs) over the window."""
        return cut_pieces(self._history.steps, self.window, before=0)


Quota = tuple[int, int]
"""A quota as an exact fraction of GPU-seconds: (numerator, denominator above 0)."""


def compute_quotas(tree: Tree, capacity: Capacity, policy: Policy, present: Sequence[int] | None = None) -> list[Quota]:
    """R2's Q of every node: (sum over the window of share x schedulable GPUs) x W / T.

    W is the weight of the whole window, T that of the time in it with a schedulable GPU;
    T = 0: present share x present GPUs x W. Siblings have equal denominators. Range 0 and
    up. With a half-life each is rounded once to whole GPU-seconds. `present`: the present shares, if
    they are known.
    """
    window = capacity.window
    present = present or list_present_shares(tree, window.now)
    if window.half_life is None and capacity.seconds and not has_changed(tree, window):
        whole = capacity.between(window.since, window.now) * window.seconds
        scales = [PPM**depth * capacity.seconds for depth in range(max(tree.depth) + 1)]
        return [(share * whole, scales[depth]) for share, depth in zip(present, tree.depth, strict=True)]
    return [
        _find_quota(steps, present[node], PPM ** tree.depth[node], capacity)
        for node, steps in enumerate(list_products(tree, policy))
    ]


def _find_quota(steps: Sequence[Step], present: int, scale: int, capacity: Capacity) -> Quota:
    """Of a node whose share of the cluster through time is `steps`, in parts of `scale`."""
    window = capacity.window
    if capacity.seconds == 0:
        return _present_quota(present, scale, capacity)
    if window.half_life is not None:
        return _weigh_quota(clip_steps(steps, window), scale, capacity), 1
    return sum_steps(steps, capacity) * window.seconds, scale * capacity.seconds


def sum_steps(steps: Sequence[Step], capacity: Capacity) -> int:
    """The sum over the window of a step function x schedulable GPUs."""
    window = capacity.window
    since, later, total = capacity.until(window.since), capacity.until(window.now), 0
    for at, value in reversed(steps):
        if at < window.now:
            before = capacity.until(at) if at > window.since else since
            total += value * (later - before)
            later = before
            if at <= window.since:
                break
    return total


def list_products(tree: Tree, policy: Policy) -> list[list[Step]]:
    """Each node's share of the cluster through all time: the product of the shares along its path."""
    if tree.products is None or tree.products[0] != policy.first_budget_seconds:
        products: list[list[Step]] = [[(-ENDLESS, 1)] for _ in tree.parent]
        for node in tree.top_down:
            if node != tree.root:
                above, own = products[tree.parent[node]], _with_first_budget(tree, node, policy)
                moments = sorted({at for at, _ in (*above, *own)})
                products[node] = [(at, value_at(above, at, 0) * value_at(own, at, 0)) for at in moments]
        tree.products = policy.first_budget_seconds, products
    return tree.products[1]


def clip_steps(steps: Sequence[Step], window: Window) -> list[Piece]:
    """A step function over the window as (from, to, value), without what is empty or 0."""
    pieces, since, end = [], window.since, window.now
    for at, value in reversed(steps):
        low = max(at, since)
        if low < end:
            if value:
                pieces.append((low, end, value))
            end = low
    pieces.reverse()
    return pieces


def has_changed(tree: Tree, window: Window) -> bool:
    """Whether some share was another one at some moment of the window."""
    at = bisect_right(tree.changes, window.since)
    return at < len(tree.changes) and tree.changes[at] <= window.now


def _with_first_budget(tree: Tree, node: int, policy: Policy) -> list[Step]:
    """Of the time before a project's first budget one day (policy) counts, at its first share."""
    steps = tree.steps[node]
    if not steps or tree.is_own(node):
        return steps
    at, share = steps[0]
    return [(at - policy.first_budget_seconds, share), *steps]


def list_present_shares(tree: Tree, now: int) -> list[int]:
    """Product of the shares in force along each node's path, in PPM to the power of its depth."""
    shares = [1] * len(tree.parent)
    for node in tree.top_down:
        if node != tree.root:
            shares[node] = shares[tree.parent[node]] * value_at(tree.steps[node], now, before=0)
    return shares


def _present_quota(share: int, scale: int, capacity: Capacity) -> Quota:
    if capacity.window.half_life is None:
        return share * capacity.gpus_now * capacity.window.seconds, scale
    whole = _weigh([(capacity.window.since, capacity.window.now, 1)], 1, capacity.window)
    return round_once(share / scale * capacity.gpus_now * whole), 1


def _weigh_quota(pieces: Sequence[Piece], scale: int, capacity: Capacity) -> int:
    whole = _weigh([(capacity.window.since, capacity.window.now, 1)], 1, capacity.window)
    present = [piece for piece in capacity.cut_pieces() if piece[2] > 0]
    # Seen from the last moment with a GPU: only their ratio counts, and from now it may be too small for a number.
    window = replace(capacity.window, now=present[-1][1])
    covered = _weigh([(low, high, 1) for low, high, _ in present], 1, window)
    product = multiply_pieces(pieces, present)
    return round_once(_weigh(product, scale, window) * (whole / covered))


def _weigh(pieces: Sequence[Piece], scale: int, window: Window) -> float:
    """Sum of value / scale x weight of the piece; cuts between equal values cancel exactly."""
    change: dict[int, int] = {}
    for low, high, value in pieces:
        change[low] = change.get(low, 0) - value
        change[high] = change.get(high, 0) + value
    return math.fsum(value / scale * weigh_until(at, window) for at, value in sorted(change.items()) if value)


def prepare_order(tree: Tree, weights: Sequence[int]) -> tuple[list[int], list[int]]:
    """Multipliers that compare usage / weight among siblings exactly, as one whole number.

    With K at least the square of every weight, floor(usage x K / weight) orders unequal
    ratios strictly (they differ by at least 1 / weight^2) and gives equal ones equal numbers.
    A weight of 0 stays 0.
    """
    units, reduced = [1] * len(weights), list(weights)
    for siblings in tree.children:
        common = math.gcd(*(weights[node] for node in siblings)) or 1
        largest = max((weights[node] // common for node in siblings), default=1)
        for node in siblings:
            units[node] = max(largest, 1) ** 2
            reduced[node] = weights[node] // common
    return units, reduced
