"""A budget in percent of the parent, GPUs and GPU-hours per week: reading, writing, rounding down. Pure, exact.

What is stored is whole parts per million of the parent's share; the other units are computed from it, cut down.
"""

import re
from decimal import Decimal
from fractions import Fraction

from portal.common.units import PPM

WEEK_HOURS = 168
PERCENT_PPM = PPM // 100
NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{0,40})?|\.[0-9]{1,40}")


class UnitError(ValueError):
    """The text is no amount; the message says what is expected."""


def amount_parse(text: str, *, unit: str) -> Fraction:
    """The exact number in the text; only plain digits with a point, nothing below 0."""
    cleaned = text.strip()
    if unit == "%":
        cleaned = cleaned.removesuffix("%").strip()
    if cleaned.startswith("-"):
        raise UnitError(f"{text.strip()[:40]!r} is below 0; a budget is 0 {unit} or more.")
    if not NUMBER.fullmatch(cleaned):
        raise UnitError(f"{text.strip()[:40]!r} is not a number of {unit}; write digits with a point, such as 12.5.")
    return Fraction(Decimal(cleaned))


def ppm_of_percent(text: str) -> int:
    return _whole_ppm(amount_parse(text, unit="%") * PERCENT_PPM)


def ppm_of_gpus(text: str, parent_gpus: Fraction) -> int:
    return _whole_ppm(_part(amount_parse(text, unit="GPUs"), parent_gpus) * PPM)


def ppm_of_hours(text: str, parent_gpus: Fraction) -> int:
    return _whole_ppm(_part(amount_parse(text, unit="GPU-hours per week") / WEEK_HOURS, parent_gpus) * PPM)


def _part(gpus: Fraction, parent_gpus: Fraction) -> Fraction:
    if not parent_gpus:
        raise UnitError("The parent holds no GPUs here, so only percent can be given.")
    return gpus / parent_gpus


def _whole_ppm(exact: Fraction) -> int:
    """Cut down to whole parts per million; above the whole is refused here, with the bound."""
    if exact > PPM:
        raise UnitError("More than 100 % of the parent's share.")
    return int(exact)


def gpus_of_ppm(ppm: int, parent_gpus: Fraction) -> Fraction:
    return parent_gpus * ppm / PPM


def percent_text(ppm: int) -> str:
    """`14`, `14.2857`: exact, as it is typed."""
    return decimal_text(Fraction(ppm, PERCENT_PPM), places=4)


def gpus_text(ppm: int, parent_gpus: Fraction) -> str:
    return decimal_text(gpus_of_ppm(ppm, parent_gpus), places=2)


def hours_text(ppm: int, parent_gpus: Fraction) -> str:
    return decimal_text(gpus_of_ppm(ppm, parent_gpus) * WEEK_HOURS, places=1)


def decimal_text(value: Fraction, *, places: int) -> str:
    """Cut down to so many decimals, zeros at the end dropped."""
    scale = 10**places
    whole, rest = divmod(int(value * scale), scale)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".") if rest else str(whole)


def gpus_words(gpus: Fraction) -> str:
    """`61 GPUs`, `1 GPU`, `2.5 GPUs`: whole from ten up."""
    text = f"{round(gpus):,}" if gpus >= 10 else decimal_text(gpus, places=2)
    return f"{text} GPU" if text == "1" else f"{text} GPUs"


def effect_words(name: str, before_ppm: int, after_ppm: int, parent_gpus: Fraction) -> str:
    """`vision goes from 14 % to 11 %: 61 GPUs fewer`."""
    moved = f"{name} goes from {percent_text(before_ppm)} % to {percent_text(after_ppm)} %"
    if not parent_gpus:
        return moved
    gpus = gpus_of_ppm(abs(after_ppm - before_ppm), parent_gpus)
    return f"{moved}: {gpus_words(gpus)} {'fewer' if after_ppm < before_ppm else 'more'}"
