"""How the pages of proposals say what a change moved."""

from typing import Any

from django import template

from portal.proposals.selectors import move_words

register = template.Library()


@register.filter
def moved(move: Any) -> str:
    """`from 30 % to 40 %`."""
    return move_words(move.before, move.after)
