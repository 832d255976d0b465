"""What waiting reasons are called in filters and lists (R16); their sentences come with each workload."""

import re
from datetime import UTC, datetime

from django.utils.timezone import localtime

REASON_WORDS = {
    "not_yet_considered": "Not yet considered",
    "unfunded": "Budget used",
    "burst_cap": "Burst cap",
    "waiting_turn": "Waiting its turn",
    "held": "GPUs being emptied",
    "starting": "Starting",
    "reserved": "Reserved",
    "contract_too_large": "Contract too large",
    "no_host_of_that_size": "No host that large",
    "no_schedulable_host": "No host schedulable",
    "cluster_full_protected": "Full of protected work",
    "unallocated_queue": "Unallocated queue",
    "unallocated_cap": "Unallocated cap",
}


PLACE = re.compile(r": position [\d,]+, [\d,]+ GPUs? ahead( in the unallocated queue)?")


MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
BANDS = {
    "starting": "Starting: its GPUs are being emptied, or its processes begin",
    "funded": "Funded queue: in this order as GPUs become free",
    "blocked": "No position yet: what the reason names comes first",
    "unallocated": "Unallocated queue: takes idle GPUs free of charge; counts its own positions",
}


def place_free(text: str) -> str:
    """A reason without the place in the queue, where columns beside it say that."""
    return PLACE.sub("", text)


def local_moments(text: str) -> str:
    """A reason with its moments in the site's zone, written as everywhere on the pages."""

    def shown(found: re.Match[str]) -> str:
        moment = localtime(datetime.strptime(found[0], "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC))
        return f"{moment:%-d %b %H:%M}"

    return MOMENT.sub(shown, text)


def band_words(code: str, position: int | None) -> str:
    """Which of the queue's parts a row stands in, as `queue_ordered` orders them."""
    if code in {"held", "starting"}:
        return BANDS["starting"]
    if code in {"unallocated_queue", "unallocated_cap"}:
        return BANDS["unallocated"]
    return BANDS["funded" if position else "blocked"]


def reason_word(code: str) -> str:
    """The short name of a reason; one that is not listed is shown as it is."""
    return REASON_WORDS.get(code, code.replace("_", " ").capitalize() if code else "Not yet considered")
