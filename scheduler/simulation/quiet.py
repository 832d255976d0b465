"""Passes that can be left out, because they provably change nothing.

Only where nothing waits: then a decision's only actions are those on what runs.

- Begin: only for held attempts; GiveUp, Quarantine, Drain: only for those, silent or emptying
  hosts. There must be none.
- Return (R6): only of unallocated attempts with a minimum runtime above 0. There must be none.
- Mature (R4): is written at the exact end of the contract, whenever a pass finds it, and usage is
  the same before and after (what is served of a contract is charged, what isn't counts as unserved).
- Lapse (R6): needs a project whose usage U has reached its quota Q. U grows at most by the allocated
  GPUs each second: nothing starts or returns meanwhile, what ends only takes away, and so does the
  window as it moves on. Q stays, if in the whole window neither shares nor capacity have changed.
  So until (Q - U) / allocated GPUs seconds after a decision, no project can lapse.

With a half-life both U and Q move in other ways: then nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.orders import ProjectBalance


def find_lapse_bound(balances: Iterable[ProjectBalance]) -> int:
    """Seconds after the decision before which no project of those told can reach balance 0."""
    least = 1 << 60
    for one in balances:
        if one.allocated_gpus > 0:
            least = min(least, (one.quota_gpu_seconds - one.usage_gpu_seconds) // one.allocated_gpus)
    return max(least, 0)
