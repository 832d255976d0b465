"""The words, shapes and colours of standings and states: one meaning each, everywhere."""

SHAPES = {
    "square": '<rect x="1" y="1" width="10" height="10" rx="2" fill="currentColor"/>',
    "disc": '<circle cx="6" cy="6" r="5" fill="currentColor"/>',
    "diamond": '<path d="M6 .4 11.6 6 6 11.6.4 6Z" fill="currentColor"/>',
    "triangle": '<path d="M.6 1.6h10.8L6 11.4Z" fill="currentColor"/>',
    "dash": '<rect x=".5" y="4" width="11" height="4" rx="1" fill="currentColor"/>',
    "ring": '<circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.8"/>',
    "dots": '<circle cx="6" cy="6" r="4.4" fill="none" stroke="currentColor" stroke-width="1.6" '
    'stroke-dasharray="2.2 2.2"/>',
    "box": '<rect x="1.4" y="1.4" width="9.2" height="9.2" rx="2" fill="none" stroke="currentColor" '
    'stroke-width="1.6"/>',
    "hatch": '<rect x="1.4" y="1.4" width="9.2" height="9.2" rx="2" fill="none" stroke="currentColor" '
    'stroke-width="1.4"/><path d="M2.5 9.5l7-7M2 6l4-4M6 10l4-4" stroke="currentColor" stroke-width="1.2"/>',
    "check": '<path d="M1.6 6.4 4.6 9.4 10.4 2.8" fill="none" stroke="currentColor" stroke-width="2.2" '
    'stroke-linecap="round" stroke-linejoin="round"/>',
    "cross": '<path d="M2.2 2.2l7.6 7.6M9.8 2.2 2.2 9.8" stroke="currentColor" stroke-width="2.2" '
    'stroke-linecap="round"/>',
    "play": '<path d="M2.5 1.2 10.6 6 2.5 10.8Z" fill="currentColor"/>',
    "slash": '<circle cx="6" cy="6" r="4.4" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M3 9 9 3" stroke="currentColor" stroke-width="1.6"/>',
    "clock": '<circle cx="6" cy="6" r="4.6" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M6 3.4V6l1.8 1.2" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"/>',
    "back": '<path d="M4.4 1.6 1.4 4.6l3 3M1.6 4.6h5.2a3 3 0 0 1 0 6H4.6" fill="none" stroke="currentColor" '
    'stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/>',
}

# key -> (shape, tone); tones are colours in commons.css, the same names in light and dark.
MARKS = {
    "protected": ("square", "protected"),
    "funded": ("disc", "funded"),
    "unallocated": ("diamond", "unallocated"),
    "stopping": ("triangle", "stopping"),
    "refunded": ("dash", "refunded"),
    "lost": ("dash", "refunded"),
    "held": ("dots", "quiet"),
    "free": ("box", "quiet"),
    "unavailable": ("hatch", "quiet"),
    "pending": ("dots", "quiet"),
    "assigned": ("dots", "watch"),
    "running": ("play", "good"),
    "ended": ("box", "quiet"),
    "succeeded": ("check", "good"),
    "failed": ("cross", "bad"),
    "start_failed": ("cross", "bad"),
    "cancelled": ("slash", "quiet"),
    "timed_out": ("clock", "watch"),
    "preempted": ("back", "stopping"),
    "host_failed": ("cross", "bad"),
    "schedulable": ("check", "good"),
    "cordoned": ("hatch", "watch"),
    "unhealthy": ("cross", "bad"),
    "unreachable": ("slash", "bad"),
    "good": ("check", "good"),
    "watch": ("triangle", "watch"),
    "bad": ("cross", "bad"),
}

STATE_WORDS = {
    "pending": "Waiting",
    "running": "Running",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "timed_out": "Timed out",
    "preempted": "Preempted",
    "host_failed": "Host failed",
    "start_failed": "Failed to start",
    "assigned": "Starting",
    "stopping": "Stopping",
    "ended": "Ended",
    "protected": "Protected",
    "funded": "Funded",
    "unallocated": "Unallocated",
    "refunded": "Refunded",
    "held": "Held",
    "free": "Free",
    "unavailable": "Unavailable",
    "schedulable": "Schedulable",
    "cordoned": "Cordoned",
    "unhealthy": "Unhealthy",
    "unreachable": "Unreachable",
}
