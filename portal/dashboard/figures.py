"""Figures: a value against the range before, and the parts of a bar."""

from dataclasses import dataclass

from portal.common.units import percent_words
from portal.dashboard.states import STATE_WORDS

POINT_PPM = 10_000


@dataclass(frozen=True)
class Change:
    """How a figure moved against the range before, in words; `tone` says whether that is good."""

    words: str
    direction: int
    tone: str

    @property
    def icon(self) -> str:
        """The arrow that goes with the words."""
        return "arrow-up" if self.direction > 0 else "arrow-down"


def ratio_change(current: float | None, previous: float | None, *, before: str, more_is_good: bool = True) -> Change:
    """The move of a ratio in percentage points: `3 points above the 7 days before`."""
    if current is None or previous is None:
        return Change(f"nothing to compare in {before}", 0, "quiet")
    points = round((current - previous) * 100, 1)
    if abs(points) < 0.1:
        return Change(f"as in {before}", 0, "quiet")
    size = f"{abs(points):.0f}" if abs(points) >= 10 or points == int(points) else f"{abs(points):.1f}"
    unit = "point" if size == "1" else "points"
    up = points > 0
    return Change(f"{size} {unit} against {before}", 1 if up else -1, "good" if up == more_is_good else "bad")


@dataclass(frozen=True)
class Part:
    """A stretch of a stacked bar 1000 units wide."""

    key: str
    value: int
    x: str
    width: str

    @property
    def word(self) -> str:
        """What the stretch means."""
        return STATE_WORDS.get(self.key, self.key)


def parts_of(values: dict[str, int], *, total: int | None = None) -> list[Part]:
    """The parts of a bar in the order given; parts of nothing are left out."""
    whole = max(total if total is not None else 0, sum(values.values()))
    parts, x = [], 0.0
    for key, value in values.items():
        if value <= 0 or not whole:
            continue
        width = 1000 * value / whole
        parts.append(Part(key, value, f"{x:.2f}", f"{width:.2f}"))
        x += width
    return parts


def share_words(part: int, whole: int) -> str:
    """`part` of `whole` as percent; a dash when there is no whole."""
    return percent_words(round(part * 1_000_000 / whole)) if whole else "–"
