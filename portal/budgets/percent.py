"""A percent as it is sent and written in files: exact, or refused. Pure."""

import re
from decimal import Decimal

from portal.common.units import PPM

PERCENT_PPM = PPM // 100
DECIMALS = 4
SHOWN_MAX = 40
_PLAIN = re.compile(r"[0-9]{1,40}(\.[0-9]{0,60})?|\.[0-9]{1,60}", re.ASCII)


class PercentError(ValueError):
    """The text is no percent from 0 to 100 that can be kept exactly; the message says which are."""


def ppm_exact(text: str) -> int:
    """Whole parts per million of a percent written in plain digits; more than they can hold is refused."""
    cleaned = text.strip()
    shown = repr(cleaned[:SHOWN_MAX])
    if cleaned.startswith("-") and _PLAIN.fullmatch(cleaned[1:]):
        raise PercentError(f"{shown} is below 0; a budget is 0 to 100 %.")
    if not _PLAIN.fullmatch(cleaned):
        raise PercentError(f"{shown} is no percent; write digits with a point, such as 12.5.")
    whole, _, decimals = cleaned.partition(".")
    if decimals[DECIMALS:].strip("0"):
        sentence = f"at most {DECIMALS} decimals of a percent, whole parts per million of the parent's share, are kept"
        raise PercentError(f"{shown} has more decimals than can be kept: {sentence}.")
    ppm = int(Decimal(f"{whole or 0}.{decimals[:DECIMALS] or 0}") * PERCENT_PPM)
    if ppm > PPM:
        raise PercentError(f"{shown} is above 100; a budget is 0 to 100 % of the parent's share.")
    return ppm


def percent_exact_text(ppm: int) -> str:
    """`14`, `14.2857`: exact, as `ppm_exact` reads it back."""
    whole, rest = divmod(ppm, PERCENT_PPM)
    return f"{whole}.{rest:0{DECIMALS}d}".rstrip("0").rstrip(".")
