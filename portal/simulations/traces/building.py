"""Rows gathered chunk by chunk, then checked as a whole (ids, projects) and put in order of submit time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portal.simulations.traces.columns import Names
from portal.simulations.traces.rows import MISSING, TraceRefused, TraceRows, shown

NUMBERS = {
    "submit_at": 0,
    "duration_seconds": 0,
    "gpus": 0,
    "rounded": 0,
    "replicas": MISSING,
    "min_runtime_seconds": MISSING,
    "resumable": MISSING,
    "priority": 0,
    "checkpoint_interval_seconds": MISSING,
}
"""Columns of numbers, with what stands where a format has no such column."""

NAMED = ("project", "user", "cluster")


@dataclass
class Builder:
    """Collects the columns of a trace."""

    file: str
    format: str
    ids: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    ignored_columns: tuple[str, ...] = ()
    _parts: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in (*NUMBERS, *NAMED)})
    _names: dict[str, Names] = field(default_factory=lambda: {name: Names() for name in NAMED})

    def add(self, ids: Sequence[str], lines: Sequence[int], **columns: Any) -> None:
        """One chunk. A name column is given as texts; what isn't given is missing."""
        count = len(ids)
        self.ids.extend(ids)
        self.lines.extend(lines)
        for name in NAMED:
            texts = columns.pop(name, None)
            part = np.full(count, MISSING) if texts is None else self._names[name].indexes(texts)
            self._parts[name].append(part)
        for name, missing in NUMBERS.items():
            self._parts[name].append(np.asarray(columns.pop(name, np.full(count, missing)), dtype=np.int64))
        if columns:
            raise TypeError(f"unknown columns {sorted(columns)}")

    def rows(self) -> TraceRows:
        """The whole trace, by submit time; rows of like time stay in the file's order."""
        if not self.ids:
            why = "; ".join(f"{count} rows are left out: {reason}" for reason, count in self.skipped.items())
            raise TraceRefused(self.file, "has no jobs after the header" if not why else f"has no jobs ({why})")
        self._check_ids()
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        projects = self._names["project"].all()
        self._check_projects(projects, columns["project"])
        order = np.argsort(columns["submit_at"], kind="stable")
        sorted_already = bool((order == np.arange(len(order))).all())
        lines = np.array(self.lines, dtype=np.int64)
        if not sorted_already:
            columns = {name: values[order] for name, values in columns.items()}
            lines = lines[order]
        durations = columns.pop("duration_seconds")
        clusters, named = self._clusters(columns.pop("cluster"))
        return TraceRows(
            file=self.file,
            format=self.format,
            ids=self.ids if sorted_already else [self.ids[row] for row in order.tolist()],
            lines=lines,
            projects=projects,
            users=self._names["user"].all(),
            clusters=clusters,
            cluster=named,
            duration_seconds=np.maximum(durations, 1),
            instant_jobs=int((durations == 0).sum()),
            ignored_columns=self.ignored_columns,
            skipped=dict(self.skipped),
            rounded=columns.pop("rounded").astype(np.bool_),
            **columns,
        )

    def _check_ids(self) -> None:
        if len(set(self.ids)) == len(self.ids):
            return
        seen: dict[str, int] = {}
        for name, line in zip(self.ids, self.lines, strict=True):
            if name in seen:
                words = f"{shown(name)} is there twice (first in line {seen[name]})"
                raise TraceRefused(self.file, words, line=line, column="job_id")
            seen[name] = line

    def _check_projects(self, projects: tuple[str, ...], column: Any) -> None:
        for index, path in enumerate(projects):
            problem = path_problem(path)
            if problem:
                line = self.lines[int((column == index).argmax())]
                raise TraceRefused(self.file, f"{shown(path)} {problem}", line=line, column="project")

    def _clusters(self, column: Any) -> tuple[tuple[str, ...], Any]:
        """An empty name is no cluster."""
        names = self._names["cluster"].all()
        if "" not in names:
            return names, column
        empty = names.index("")
        kept = np.where(column == empty, MISSING, np.where(column > empty, column - 1, column))
        return tuple(name for name in names if name), kept


def path_problem(path: str) -> str | None:
    """Why a text is no path of projects, or None."""
    parts = path.split("/")
    if any(not part.strip() for part in parts):
        return "is no path of projects (write it as lab/nlp)"
    if len(set(parts)) != len(parts):
        return "comes back to a project that it has passed: a project can't be inside itself"
    return None
