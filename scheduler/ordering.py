"""Who is considered next (R8): the walk down the tree, and the order inside a leaf.

Everything is compared as whole numbers; ties fall to the earlier first submit of the workload
that would start, then to the lower workload id, so the order of the input never shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from scheduler.balance import Tree
from scheduler.types import IntArray, Pending

ALONE = -1
"""The kind of an item that is like no other: a return."""


@dataclass(slots=True)
class Items:
    """What may ask to be started or to return, in parallel lists; an item is a position in them.

    Of what waits the row of Pending is the item; what asks to return in a walk stands behind.
    """

    row: list[int] = field(default_factory=list)  # row of Pending, or index of the attempt that would return
    returns: list[bool] = field(default_factory=list)
    project: list[int] = field(default_factory=list)
    author: list[int] = field(default_factory=list)
    priority: list[int] = field(default_factory=list)
    first_submit_at: list[int] = field(default_factory=list)
    workload: list[int] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)  # in total
    contract_seconds: list[int] = field(default_factory=list)  # its minimum runtime, or what is left of it
    kind: list[int] = field(default_factory=list)  # see Kinds

    @classmethod
    def of(cls, pending: Pending, gpus: IntArray, kind: IntArray) -> Items:
        """All rows of the table."""
        return cls(
            row=list(range(len(kind))),
            returns=[False] * len(kind),
            project=pending.project.tolist(),
            author=pending.author.tolist(),
            priority=pending.priority.tolist(),
            first_submit_at=pending.first_submit_at.tolist(),
            workload=pending.id.tolist(),
            replicas=pending.replicas.tolist(),
            gpus=gpus.tolist(),
            contract_seconds=pending.min_runtime_seconds.tolist(),
            kind=kind.tolist(),
        )

    def __len__(self) -> int:
        return len(self.row)

    def add(
        self,
        *,
        row: int,
        returns: bool,
        project: int,
        author: int,
        priority: int,
        first_submit_at: int,
        workload: int,
        replicas: int,
        gpus: int,
        contract_seconds: int,
        kind: int,
    ) -> None:
        """One more, behind the others."""
        self.row.append(row)
        self.returns.append(returns)
        self.project.append(project)
        self.author.append(author)
        self.priority.append(priority)
        self.first_submit_at.append(first_submit_at)
        self.workload.append(workload)
        self.replicas.append(replicas)
        self.gpus.append(gpus)
        self.contract_seconds.append(contract_seconds)
        self.kind.append(kind)

    def cut(self, count: int) -> None:
        """Only the first so many stay."""
        if len(self.row) > count:
            for name in Items.__dataclass_fields__:
                del getattr(self, name)[count:]


Offer = dict[int, list[int]]
"""What a walk offers: by project, its items by the policy's keys but for authors' usage; no list is empty."""


def rank(items: Items, item: int, order: Sequence[str], author_usage: int) -> tuple[int, ...]:
    """The place of an item in its leaf, lowest first."""
    keys = []
    for key in order:
        if key == "priority":
            keys.append(-items.priority[item])
        elif key == "author_usage":
            keys.append(author_usage)
        else:
            keys.append(items.first_submit_at[item])
    return (*keys, items.first_submit_at[item], items.workload[item])


def sort_pending(pending: Pending, order: Sequence[str]) -> IntArray:
    """All rows by project, and in each as `rank` has them; authors' usage is left aside."""
    columns = [pending.id, pending.first_submit_at]
    for key in reversed(order):
        columns.append(-pending.priority if key == "priority" else pending.first_submit_at)
    return np.lexsort([*columns, pending.project])


class Leaf:
    """The queue of one project: always offers the item that its keys put first.

    `queue` is sorted but for authors' usage; where that counts, each author has a queue of his own.
    """

    def __init__(
        self, items: Items, order: Sequence[str], queue: list[int], author_usage: Callable[[int], int]
    ) -> None:
        self._items, self._order, self._author_usage = items, order, author_usage
        self._queues = [queue[::-1]]
        if "author_usage" in order and len(queue) > 1:
            by_author: dict[int, list[int]] = {}
            for item in reversed(queue):
                by_author.setdefault(items.author[item], []).append(item)
            self._queues = list(by_author.values())
        self._heap = [self._rank(number) for number in range(len(self._queues))]
        heapify(self._heap)

    def _rank(self, number: int) -> tuple[tuple[int, ...], int]:
        item = self._queues[number][-1]
        usage = self._author_usage(self._items.author[item]) if "author_usage" in self._order else 0
        return rank(self._items, item, self._order, usage), number

    def head(self) -> int | None:
        """The item that is next, or None when nothing is left."""
        return self._queues[self._heap[0][1]][-1] if self._heap else None

    def drop_head(self) -> None:
        """The head is done with: started, or can't start. Its author's usage is read anew."""
        number = self._heap[0][1]
        self._queues[number].pop()
        if self._queues[number]:
            heapreplace(self._heap, self._rank(number))
        else:
            heappop(self._heap)

    def clear(self) -> None:
        """Nothing is left."""
        self._heap.clear()


Key = tuple[int, int]
"""Of a node among its siblings, lowest first: (1 if it comes last whatever its usage, ratio)."""


class Walk:
    """From the root down, at each level the child that sorts first and has something to start.

    `key` gives a node's present place among its siblings. An item that can't start is dropped
    for good, so that the child that is offered always has something left to try.
    """

    def __init__(self, tree: Tree, leaves: dict[int, Leaf], items: Items, key: Callable[[int], Key]) -> None:
        self._tree, self._items, self._key = tree, items, key
        self._leaves = {tree.leaf_of[project]: leaf for project, leaf in leaves.items()}
        self._heaps: dict[int, list[tuple[Key, int, int, int]]] = {}
        self._entry: dict[int, tuple[Key, int, int, int]] = {}
        above = {node for project in leaves for node in tree.path_of[project]}
        for node in sorted(above, key=tree.depth.__getitem__, reverse=True):
            self._offer(node)

    def head(self) -> int | None:
        """The item that is considered next, or None when nothing is left."""
        node = self._tree.root
        while node in self._heaps:
            heap = self._clean(node)
            if not heap:
                return None
            node = heap[0][3]
        leaf = self._leaves.get(node)
        return leaf.head() if leaf else None

    def drop(self, item: int, pass_hopeless: Callable[[Leaf], None]) -> None:
        """The head is done with, started or not: on to what its leaf has next that has a chance."""
        node = self._tree.leaf_of[self._items.project[item]]
        leaf = self._leaves[node]
        leaf.drop_head()
        pass_hopeless(leaf)
        self._offer_path(node)

    def _offer_path(self, node: int) -> None:
        """The leaf's queue or the balances on its path have changed: file the whole path anew."""
        while True:
            self._offer(node)
            if node == self._tree.root:
                return
            node = self._tree.parent[node]

    def _clean(self, node: int) -> list[tuple[Key, int, int, int]]:
        heap = self._heaps[node]
        while heap and self._entry.get(heap[0][3]) != heap[0]:
            heappop(heap)
        return heap

    def _head_of(self, node: int) -> tuple[int, int] | None:
        """(first submit, workload id) of what the subtree would start next."""
        leaf = self._leaves.get(node)
        if leaf is not None:
            item = leaf.head()
            return None if item is None else (self._items.first_submit_at[item], self._items.workload[item])
        heap = self._clean(node) if node in self._heaps else []
        return (heap[0][1], heap[0][2]) if heap else None

    def _offer(self, node: int) -> None:
        if node == self._tree.root:
            return
        head = self._head_of(node)
        if head is None:
            self._entry.pop(node, None)
            return
        entry = (self._key(node), head[0], head[1], node)
        self._entry[node] = entry
        heappush(self._heaps.setdefault(self._tree.parent[node], []), entry)


def estimate_positions(
    tree: Tree,
    project: IntArray,
    ratio: tuple[list[float], list[float]],
    charge: IntArray,
    leaf_keys: Sequence[IntArray],
) -> IntArray:
    """The order in which waiting workloads would be considered if each had room: 0 is next.

    For people (R16), not for decisions: in each leaf by its keys; then, level by level upward,
    siblings are merged by the ratio (usage + charge of what stands before) / weight that each
    item would meet. `ratio` is (usage, weight), each by node; a weight of 0 comes last.
    """
    count = len(project)
    order = np.lexsort(leaf_keys) if count else np.zeros(0, dtype=np.int64)
    node = np.array(tree.leaf_of, dtype=np.int64)[project]
    ties = np.empty(count, dtype=np.int64)
    ties[order] = np.arange(count)
    parent = np.array(tree.parent, dtype=np.int64)
    depth = np.array(tree.depth, dtype=np.int64)
    usage, weight = np.array(ratio[0]), np.array(ratio[1])
    rank = ties
    for level in range(int(depth.max(initial=0)), 0, -1):
        here = np.flatnonzero(depth[node] == level)
        # Ranks of different levels may be equal: the leaves' own order, which is total, has the last word.
        inside = here[np.lexsort((ties[here], rank[here], node[here]))]
        before = sum_before(node[inside], charge[inside])
        with np.errstate(divide="ignore", invalid="ignore"):
            met = np.where(weight[node[inside]] > 0, (usage[node[inside]] + before) / weight[node[inside]], np.inf)
        node = node.copy()
        node[here] = parent[node[here]]
        merged = inside[np.lexsort((ties[inside], rank[inside], met))]
        rank = rank.copy()
        rank[merged] = np.arange(len(merged))
    position = np.empty(count, dtype=np.int64)
    position[np.argsort(rank, kind="stable")] = np.arange(count)
    return position


def sum_before(group: IntArray, charge: IntArray) -> IntArray:
    """Running sum of `charge` inside each run of equal groups, the item itself not counted."""
    if not len(group):
        return charge
    total = np.cumsum(charge) - charge
    new = np.ones(len(group), dtype=bool)
    new[1:] = group[1:] != group[:-1]
    starts = np.flatnonzero(new)
    return np.asarray(total - np.repeat(total[starts], np.diff(np.append(starts, len(group)))))
