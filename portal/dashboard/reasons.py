"""What waiting reasons are called in filters and lists (R16); their sentences come with each workload."""

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


def reason_word(code: str) -> str:
    """The short name of a reason; one that is not listed is shown as it is."""
    return REASON_WORDS.get(code, code.replace("_", " ").capitalize() if code else "Not yet considered")
