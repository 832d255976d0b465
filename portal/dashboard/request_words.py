"""What a request's last grant achieved, as pages show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class LastGrant:
    """Figures of the ledger, or why there are none."""

    reason: str
    start_at: datetime | None = None
    end_at: datetime | None = None
    figures: Mapping[str, Any] | None = None

    @property
    def ratio(self) -> float | None:
        """Delivered over owed; None: nothing was owed."""
        owed = self._gpu_seconds("owed")
        return self._gpu_seconds("delivered") / owed if owed else None

    @property
    def used_gpu_seconds(self) -> int:
        return self._gpu_seconds("charged") + self._gpu_seconds("unallocated")

    def _gpu_seconds(self, name: str) -> int:
        return int((self.figures or {}).get(f"{name}_gpu_seconds") or 0)


def last_grant_of(figures: Mapping[str, Any]) -> LastGrant:
    """Out of what a request keeps."""
    if "reason" in figures:
        return LastGrant(reason=str(figures["reason"]))
    return LastGrant(
        reason="",
        start_at=datetime.fromisoformat(figures["from"]),
        end_at=datetime.fromisoformat(figures["until"]),
        figures=figures,
    )
