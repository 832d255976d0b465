"""A run as charts of simulations draw it: its report under a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.dashboard.simulation_words import simulated_words

SERIES_SHADES = (("accent", "solid"), ("text", "dash"), ("muted", "dot"), ("unallocated", "dashdot"))


@dataclass(frozen=True)
class Shown:
    """A run's report under the name that its chart gives it; "" where it stands alone."""

    label: str
    report: Mapping[str, Any]

    @property
    def days_words(self) -> str:
        """What is measured, in words."""
        return simulated_words(self.report)


def subtitle_of(measure: str, shown: Sequence[Shown]) -> str:
    words = dict.fromkeys(each.days_words for each in shown)
    return f"{measure} · {'; '.join(words)}"
