"""A budget in three units: exact, cut down, never more than was typed."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.dashboard.budget_units import (
    UnitError,
    effect_words,
    gpus_of_ppm,
    gpus_text,
    percent_text,
    ppm_of_gpus,
    ppm_of_hours,
    ppm_of_percent,
)


@given(st.integers(0, 1_000_000))
def test_percent_as_shown_reads_back_as_the_same_share(ppm):
    assert ppm_of_percent(percent_text(ppm)) == ppm


@given(st.fractions(0, 64, max_denominator=10**6), st.integers(64, 10**6))
def test_gpus_round_down_and_by_less_than_one_part_per_million(gpus, parent):
    text = f"{float(gpus):.6f}"
    ppm = ppm_of_gpus(text, Fraction(parent))
    assert 0 <= Fraction(text) - gpus_of_ppm(ppm, Fraction(parent)) < Fraction(parent, 1_000_000)


def test_thirty_decimals_are_cut_down():
    assert ppm_of_percent("33.333333333333333333333333333333") == 333_333


def test_hours_per_week_are_gpus_times_168():
    assert ppm_of_hours("168", Fraction(4)) == 250_000


@pytest.mark.parametrize("text", ["NaN", "nan", "inf", "1e309", "1e3", "-1", "-0.1", "0x10", "1,5", "١٢", "12 34", "."])
def test_what_is_no_plain_amount_is_refused(text):
    with pytest.raises(UnitError):
        ppm_of_percent(text)


def test_a_unit_that_is_not_the_fields_is_refused():
    assert ppm_of_percent("25 %") == 250_000
    for read in (ppm_of_hours, ppm_of_gpus):
        with pytest.raises(UnitError, match="is not a number of GPU"):
            read("100%", Fraction(4))


@pytest.mark.parametrize("text", ["100.000000000000000000000000000001", "101", "999999999999"])
def test_more_than_the_whole_is_refused_however_little(text):
    with pytest.raises(UnitError):
        ppm_of_percent(text)


def test_a_parent_without_gpus_takes_percent_only():
    with pytest.raises(UnitError, match="only percent"):
        ppm_of_gpus("1", Fraction(0))
    assert gpus_text(500_000, Fraction(0)) == "0"


def test_the_effect_is_said_in_gpus():
    assert effect_words("vision", 140_000, 110_000, Fraction(2048)) == "vision goes from 14 % to 11 %: 61 GPUs fewer"
    assert effect_words("vision", 0, 500_000, Fraction(2)) == "vision goes from 0 % to 50 %: 1 GPU more"
