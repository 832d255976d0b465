"""Every one of the 28 cases is a test here: its number stands in the docstring."""

import re
from pathlib import Path

CASES = 28


def test_no_case_is_without_a_test() -> None:
    here = Path(__file__).parent
    texts = [path.read_text() for path in here.glob("test_*_cases.py") if path.name != Path(__file__).name]
    found = {int(number) for text in texts for number in re.findall(r'def test_[^"]*?"""Case (\d+)\b', text)}
    assert found == set(range(1, CASES + 1))
