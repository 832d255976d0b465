"""One way of breaking a rule: text that occurs once, what is put in its place, and what that means."""

from __future__ import annotations

from dataclasses import dataclass

RULES = (
    *(f"R{number}" for number in range(1, 9)),
    *("R9a", "R9b", "R9c"),
    *(f"R{number}" for number in range(10, 17)),
)
"""Every rule that must have a mutant; R9 has three licences."""


@dataclass(frozen=True)
class Mutant:
    """One rule broken in one place."""

    rule: str
    breaks: str  # what it makes of the rule
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def needs_portal(self) -> bool:
        """Its tests need Django and a database; those of `tests/scheduler` need neither."""
        return any(not test.startswith("tests/scheduler/") for test in self.tests)


def core(rule: str, breaks: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    """A mutant of the pure core, with tests of the core alone."""
    files = tuple(f"tests/scheduler/test_{test}.py" for test in tests)
    return Mutant(rule, breaks, f"scheduler/{file}.py", old, new, files)


def portal(rule: str, breaks: str, file: str, old: str, new: str, test: str) -> Mutant:
    """A mutant of what the portal does for a rule."""
    return Mutant(rule, breaks, f"portal/{file}.py", old, new, (f"tests/{test}.py",))
