"""The reference says what the code says."""

import re
from pathlib import Path

from portal import env

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "environment.md"


def test_every_variable_stands_in_the_reference_with_its_default_and_meaning() -> None:
    page = PAGE.read_text()
    for variable in env.VARIABLES:
        shown = f"`{variable.default}`" if variable.default else "none"
        assert f"| `{variable.name}` | {shown} | {variable.meaning} |" in page


def test_the_reference_lists_no_variable_that_is_not_read() -> None:
    first_table = PAGE.read_text().split("The launcher")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", first_table, re.MULTILINE))
    assert named == {variable.name for variable in env.VARIABLES}
