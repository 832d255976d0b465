"""A scenario's values, read with their place (`projects[3].share_percent`); all that is wrong is refused together."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class ScenarioRefused(Exception):
    """The scenario can't be run; `problems` are (place, sentence)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{place}: {words}" if place else words for place, words in problems))


@dataclass
class Problems:
    """What is wrong so far."""

    found: list[tuple[str, str]] = field(default_factory=list)

    def add(self, place: str, words: str) -> None:
        self.found.append((place, words if words.endswith((".", "?")) else f"{words}."))

    def raise_any(self) -> None:
        if self.found:
            raise ScenarioRefused(list(dict.fromkeys(self.found)))


@dataclass(frozen=True)
class Values:
    """One object of the scenario and where it stands. What is wrong is noted, and the default goes on."""

    place: str
    given: Mapping[str, Any]
    problems: Problems

    @classmethod
    def of(cls, place: str, given: Any, problems: Problems) -> "Values":
        """An object; anything else is noted and read as an empty one."""
        if not isinstance(given, Mapping):
            problems.add(place, f"must be an object, not {kind(given)}")
            given = {}
        return cls(place, given, problems)

    def at(self, key: str) -> str:
        """The place of one key."""
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, key: str, words: str) -> None:
        self.problems.add(self.at(key), words)

    def allow(self, valid: Iterable[str], *, more: str = "") -> None:
        """Unknown keys are refused by name, with the valid ones."""
        keys = tuple(valid)
        for key in self.given:
            if key not in keys:
                close = difflib.get_close_matches(str(key), keys, n=1)
                meant = f" (did you mean {close[0]}?)" if close else ""
                self.wrong(str(key), f"is not a key that is known{meant}; valid are {', '.join(keys)}{more}")

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def part(self, key: str) -> "Values":
        """An object inside; without it an empty one."""
        return Values.of(self.at(key), self.given.get(key, {}), self.problems)

    def parts(self, key: str) -> list["Values"]:
        """A list of objects inside; without it an empty one."""
        given = self.given.get(key, [])
        if not isinstance(given, list):
            self.wrong(key, f"must be a list, not {kind(given)}")
            return []
        return [Values.of(f"{self.at(key)}[{number}]", one, self.problems) for number, one in enumerate(given)]

    def text(self, key: str, default: str = "", *, valid: Iterable[str] = ()) -> str:
        """A text of 1 to 200 plain characters, or one of the valid ones."""
        given = self.given.get(key, default)
        options = tuple(valid)
        if options and given not in options:
            listed = ", ".join(options)
            wrong = f"must be one of {listed}, not {shown(given)}"
            self.wrong(key, wrong if key in self.given else f"must be given: one of {listed}")
            return default
        if not isinstance(given, str) or not given.strip() or len(given) > 200 or not given.isprintable():
            self.wrong(key, "must be given" if key not in self.given else "must be a text of 1 to 200 plain characters")
            return default
        return given

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """A finite number within bounds, both included."""
        given = self.given.get(key, default)
        if isinstance(given, bool) or not isinstance(given, int | float):
            self.wrong(key, f"must be a number, not {kind(given)}" if key in self.given else "must be given")
            return default
        if not least <= given <= most:  # so that NaN is wrong too, and a number too long for a float needs none
            bounds = f"must be between {least:.12g} and {most:.12g}, not {shown(given)}"
            self.wrong(key, bounds if key in self.given else "must be given")
            return default
        return given

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds, both included."""
        before = len(self.problems.found)
        value = self.number(key, default, least, most)
        if len(self.problems.found) == before and value != int(value):
            self.wrong(key, f"must be a whole number, not {value}")
            return default
        return int(value)

    def whole_or_none(self, key: str, default: int | None, least: int, most: int) -> int | None:
        """A whole number, or null for none."""
        if self.given.get(key, default) is None:
            return None
        return self.whole(key, default if default is not None else least, least, most)

    def flag(self, key: str, default: bool) -> bool:
        given = self.given.get(key, default)
        if not isinstance(given, bool):
            self.wrong(key, f"must be true or false, not {shown(given)}")
            return default
        return given


def kind(value: Any) -> str:
    """What a value is, as people call it in JSON."""
    names = {bool: "true or false", str: "a text", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")


def shown(value: Any) -> str:
    """A value as an error quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
