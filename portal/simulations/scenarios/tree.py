"""The project tree of one cluster: from the lines of a scenario, and the projects of a trace that it doesn't list."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from portal.simulations.scenarios.parts import PERCENT_PPM, BudgetLine
from portal.simulations.scenarios.values import Problems
from scheduler.simulation.setup import ProjectSetup
from scheduler.types import NEVER, PPM, ShareSteps

ROOT = "all"
"""What the root is called where the scenario's projects have no common one."""


@dataclass
class Tree:
    """Paths and their parents, parents first. A line of the root itself is not a budget: the root has the cluster."""

    lines: tuple[BudgetLine, ...]
    root: str
    parents: dict[str, str | None] = field(default_factory=dict)
    _by_end: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[BudgetLine]) -> "Tree":
        """Listed projects and their ancestors. The top that all share is the root, unless it has its own budget."""
        kept = tuple(line for line in lines if line.path)
        tops = {line.path.partition("/")[0] for line in kept}
        top = next(iter(tops)) if len(tops) == 1 else ""
        inner = any(line.path.startswith(f"{top}/") for line in kept)
        budgeted = any(line.path == top and (line.share_ppm, line.burst_gpus) != (PPM, None) for line in kept)
        root = top if top and inner and not budgeted else ROOT
        tree = cls(tuple(line for line in kept if line.path != root), root, {root: None})
        for line in tree.lines:
            tree.add(line.path)
        return tree

    def add(self, path: str) -> None:
        """A project and its ancestors."""
        parent = self.root
        for ancestor in ancestors(path):
            if ancestor != self.root:
                self.parents.setdefault(ancestor, parent)
            parent = ancestor

    def find(self, name: str) -> str | None:
        """The project that a trace means: its path, or the last part of one path only."""
        if name in self.parents:
            return name
        ends = self.by_end().get(name, [])
        return ends[0] if len(ends) == 1 else None

    def by_end(self) -> dict[str, list[str]]:
        """Paths by each of their endings: lab/nlp/x by x and by nlp/x."""
        if not self._by_end:
            for path in self.parents:
                parts = path.split("/")
                for start in range(1, len(parts)):
                    self._by_end.setdefault("/".join(parts[start:]), []).append(path)
        return self._by_end

    def unlisted(self) -> list[str]:
        """Ancestors of listed projects that have no line: each has 100 % of its parent."""
        listed = {line.path for line in self.lines}
        inner = {ancestor for line in self.lines for ancestor in list(ancestors(line.path))[:-1]}
        return [path for path in self.parents if path in inner and path not in listed and path != self.root]

    def projects(self) -> tuple[ProjectSetup, ...]:
        """As the engine takes them; the first one is the root."""
        index = {path: number for number, path in enumerate(self.parents)}
        return tuple(
            ProjectSetup(path, NEVER if parent is None else index[parent]) for path, parent in self.parents.items()
        )

    def shares(self) -> ShareSteps:
        """Every line as a step."""
        index = {path: number for number, path in enumerate(self.parents)}
        steps = [(index[path], 0, PPM, NEVER) for path in self.unlisted()]
        for line in self.lines:
            burst = NEVER if line.burst_gpus is None else line.burst_gpus
            steps.append((index[line.path], line.from_seconds, line.share_ppm, burst))
        columns = np.array(steps, dtype=np.int64).reshape(-1, 4).T
        return ShareSteps(project=columns[0], at=columns[1], share_ppm=columns[2], burst_gpus=columns[3])


def ancestors(path: str) -> Iterator[str]:
    """`lab`, `lab/nlp` and so on: down to the path itself."""
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def check_budgets(lines: Sequence[BudgetLine], cluster: str, problems: Problems) -> None:
    """No project twice at one time, and at no time more than 100 % of a parent (R1)."""
    seen: dict[tuple[str, int], str] = {}
    for line in lines:
        first = seen.setdefault((line.path, line.from_seconds), line.place)
        if first != line.place:
            words = f"{line.path} is listed twice on {cluster} from second {line.from_seconds} on (first as {first})"
            problems.add(f"{line.place}.path", words)
    tree = Tree.of(lines)
    levels: dict[str, list[BudgetLine]] = {}
    for line in sorted(tree.lines, key=lambda line: line.from_seconds):
        levels.setdefault(tree.parents[line.path] or "", []).append(line)
    free: dict[str, list[str]] = {}
    for path in tree.unlisted():
        free.setdefault(tree.parents[path] or "", []).append(path)
    for parent in dict.fromkeys([*levels, *free]):
        _check_level(_Level(parent, cluster, tuple(free.get(parent, ()))), levels.get(parent, []), problems)


@dataclass(frozen=True, slots=True)
class _Level:
    """The children of one parent on one cluster; `free` ones are not listed and have 100 % throughout."""

    parent: str
    cluster: str
    free: tuple[str, ...]

    def excess(self, shares: dict[str, int], moment: int) -> str:
        each = ", ".join(
            f"{path} {percent(ppm)}{' (not listed)' * (path in self.free)}" for path, ppm in shares.items() if ppm
        )
        total = percent(sum(shares.values()))
        return f"on {self.cluster} the children of {self.parent} add up to {total} from second {moment} on: {each}"


def _check_level(level: _Level, steps: list[BudgetLine], problems: Problems) -> None:
    """The steps of one parent's children, in order of time: the first moment with too much is named."""
    shares = dict.fromkeys(level.free, PPM)
    total = PPM * len(shares)
    for number, line in enumerate(steps):
        total += line.share_ppm - shares.get(line.path, 0)
        shares[line.path] = line.share_ppm
        last = number + 1 == len(steps) or steps[number + 1].from_seconds != line.from_seconds
        if last and total > PPM:
            return problems.add(f"{line.place}.share_percent", level.excess(shares, line.from_seconds))
    if total > PPM:
        problems.add("projects", level.excess(shares, 0))


def percent(ppm: int) -> str:
    """Parts per million as people read them."""
    return f"{ppm / PERCENT_PPM:g} %"
