"""A budget in percent of parent or cluster, GPUs and GPU-hours per week: reading, writing, rounding down. Pure, exact.

What is stored is whole parts per million of the parent's share; the other units are computed from it, cut down.
"""

import re
from decimal import Decimal
from fractions import Fraction

from portal.common.units import PPM

WEEK_HOURS = 168
PERCENT_PPM = PPM // 100
UNITS = ("percent", "cluster", "gpus", "hours")
UNIT_WORDS = {
    "percent": "percent of the parent",
    "cluster": "percent of the cluster",
    "gpus": "GPUs",
    "hours": "GPU-hours per week",
}
UNIT_SIGNS = {"percent": "%", "cluster": "%", "gpus": "GPUs", "hours": "GPU-hours per week"}
PLACES = {"percent": 4, "cluster": 4, "gpus": 2, "hours": 1}
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


def wholes_of(*, parent_share: Fraction, parent_gpus: Fraction) -> dict[str, Fraction]:
    """What the parent holds in each unit; one in which it holds nothing can't be written in."""
    held = {
        "percent": Fraction(100),
        "cluster": parent_share * 100,
        "gpus": parent_gpus,
        "hours": parent_gpus * WEEK_HOURS,
    }
    return {unit: held[unit] for unit in UNITS}


def ppm_of(text: str, unit: str, whole: Fraction) -> int:
    """Parts per million of the parent's share, cut down. `whole` is what the parent holds in that unit."""
    amount = amount_parse(text, unit=UNIT_SIGNS[unit])
    if not whole:
        raise UnitError("The parent holds no GPUs here, so only percent can be given.")
    return _whole_ppm(amount / whole * PPM)


def amount_text(ppm: int, unit: str, whole: Fraction) -> str:
    """The share in that unit, cut down to its decimals."""
    return decimal_text(whole * ppm / PPM, places=PLACES[unit])


def ppm_of_percent(text: str) -> int:
    return ppm_of(text, "percent", Fraction(100))


def ppm_of_gpus(text: str, parent_gpus: Fraction) -> int:
    return ppm_of(text, "gpus", parent_gpus)


def ppm_of_hours(text: str, parent_gpus: Fraction) -> int:
    return ppm_of(text, "hours", parent_gpus * WEEK_HOURS)


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
    return amount_text(ppm, "gpus", parent_gpus)


def decimal_text(value: Fraction, *, places: int) -> str:
    """Cut down to so many decimals, zeros at the end dropped."""
    scale = 10**places
    whole, rest = divmod(int(value * scale), scale)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".") if rest else str(whole)


def gpus_words(gpus: Fraction) -> str:
    """`61 GPUs`, `1 GPU`, `2.5 GPUs`: whole from ten up."""
    text = f"{round(gpus):,}" if gpus >= 10 else decimal_text(gpus, places=2)
    return f"{text} GPU" if text == "1" else f"{text} GPUs"


def burst_words(name: str, before: int | None, after: int | None) -> str:
    """`vision: burst cap from none to 8 GPUs`."""
    texts = ["none" if cap is None else str(cap) for cap in (before, after)]
    return f"{name}: burst cap from {texts[0]} to {texts[1]}{'' if after is None else ' GPUs'}"


def kept_words(ppm: int, parent_gpus: Fraction) -> str:
    """`Keeps 33.3333 %, 21.33 GPUs, 3583.9 GPU-hours per week`: what is stored, where more was typed."""
    gpus = gpus_text(ppm, parent_gpus)
    hours = amount_text(ppm, "hours", parent_gpus * WEEK_HOURS)
    parts = [f"Keeps {percent_text(ppm)} %"]
    if parent_gpus:
        parts += [
            f"{gpus} GPU{'' if gpus == '1' else 's'}",
            f"{hours} GPU-hour{'' if hours == '1' else 's'} per week",
        ]
    return ", ".join(parts)


def effect_words(name: str, before_ppm: int, after_ppm: int, parent_gpus: Fraction) -> str:
    """`vision goes from 14 % to 11 %: 61 GPUs fewer`."""
    moved = f"{name} goes from {percent_text(before_ppm)} % to {percent_text(after_ppm)} %"
    if not parent_gpus:
        return moved
    gpus = gpus_of_ppm(abs(after_ppm - before_ppm), parent_gpus)
    return f"{moved}: {gpus_words(gpus)} {'fewer' if after_ppm < before_ppm else 'more'}"
