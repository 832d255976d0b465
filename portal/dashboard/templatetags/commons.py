"""Filters and tags of every page: numbers, times, marks and icons in one way."""

import re
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.template.defaultfilters import date as date_filter
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from portal.common import units
from portal.dashboard import reasons
from portal.dashboard.states import MARKS, SHAPES, STATE_WORDS

register = template.Library()

ICONS = Path(settings.BASE_DIR) / "static" / "vendor" / "tabler-icons"
UNIT_SPACE = re.compile(r"(?<=[0-9]) (?=(?:%|GPUs?|GPU-hours?|h|min|s)(?![\w-]))")
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
UNKNOWN = mark_safe('<span class="unknown" title="unknown">&ndash;</span>')  # noqa: S308 - a constant


@cache
def _icon_body(name: str) -> str:
    text = (ICONS / f"{name}.svg").read_text()
    inner = text.split(">", 1)[1].rsplit("</svg>", 1)[0]
    return inner.replace('<path stroke="none" d="M0 0h24v24H0z" fill="none" />', "").strip()


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """An outline icon. With `label` it speaks for itself, without it is decoration beside a word."""
    body = mark_safe(_icon_body(name))  # noqa: S308 - a vendored file
    start = '<svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" {}>{}</svg>'
    if label:
        return format_html(start, format_html('role="img" aria-label="{}"', label), body)
    return format_html(start, mark_safe('aria-hidden="true"'), body)


@register.simple_tag
def mark(key: str) -> SafeString:
    """The small shape that goes with a standing or a state: each has its own, so colour never stands alone."""
    shape, tone = MARKS.get(key, ("ring", "quiet"))
    body = mark_safe(SHAPES[shape])  # noqa: S308 - constants
    return format_html('<svg class="glyph tone-{}" viewBox="0 0 12 12" aria-hidden="true">{}</svg>', tone, body)


@register.filter
def duration(seconds: Any) -> Any:
    """`2 h 10 min`, exact on hover; a dash for nothing."""
    if seconds is None or seconds == "":
        return UNKNOWN
    whole = int(seconds)
    return format_html(
        '<span class="num" title="{}">{}</span>', units.duration_exact(abs(whole)), units.duration_words(whole)
    )


@register.filter(is_safe=True)
def unbroken(text: str) -> str:
    """A heading in which no line ends between a number and its unit."""
    return UNIT_SPACE.sub(NO_BREAK_SPACE, text)


@register.filter
def duration_text(seconds: Any) -> str:
    """`2 h 10 min` as plain text, for attributes and sentences."""
    return "–" if seconds is None or seconds == "" else units.duration_words(int(seconds))


def three_digits(value: float) -> str:
    """Three significant digits with thin separators: 0, 0.42, 12.3, 4,120."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        digits = len(str(int(size)))
        rounded = round(value, 3 - digits) if digits > 3 else round(value)
        return f"{rounded:,.0f}"
    decimals = 1 if size >= 10 else 2
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if round(value, decimals) else "<0.01"


@register.filter
def gpu_hours(gpu_seconds: Any) -> Any:
    """GPU-hours of GPU-seconds, three significant digits, exact on hover."""
    if gpu_seconds is None:
        return UNKNOWN
    return format_html(
        '<span class="num" title="{} GPU-seconds">{}</span>',
        f"{int(gpu_seconds):,}",
        three_digits(units.gpu_hours(gpu_seconds)),
    )


@register.filter
def gpu_hours_text(gpu_seconds: Any) -> str:
    """GPU-hours as plain text, three significant digits."""
    return "–" if gpu_seconds is None else three_digits(units.gpu_hours(int(gpu_seconds)))


@register.filter
def gpu_hours_exact(gpu_seconds: Any) -> Any:
    """GPU-hours for tables: two decimals, separators."""
    if gpu_seconds is None:
        return UNKNOWN
    return format_html(
        '<span class="num" title="{} GPU-seconds">{}</span>', f"{int(gpu_seconds):,}", f"{gpu_seconds / 3600:,.2f}"
    )


@register.filter
def percent_ppm(ppm: Any) -> str:
    """A share in parts per million as percent."""
    return "–" if ppm is None else units.percent_words(int(ppm))


@register.filter
def percent(ratio: Any) -> str:
    """A ratio as percent: without decimals from 10 % up; a dash for unknown."""
    return "–" if ratio is None else units.percent_words(round(float(ratio) * units.PPM))


@register.filter
def grouped(number: Any) -> str:
    """A whole number with separators."""
    return "–" if number is None else f"{int(number):,}"


@register.filter
def moment(value: datetime | None) -> Any:
    """A moment in the site's zone, named, exact in the title and machine-readable."""
    if value is None:
        return UNKNOWN
    local = timezone.localtime(value)
    return format_html(
        '<time class="num" datetime="{}" title="{} {}">{}</time>',
        local.isoformat(),
        date_filter(local, "Y-m-d H:i:s"),
        local.tzname(),
        date_filter(local, "j M H:i" if local.year == timezone.localtime().year else "j M Y H:i"),
    )


@register.filter
def ago(value: datetime | None, now: datetime | None = None) -> Any:
    """`3 min ago`, the exact moment on hover."""
    if value is None:
        return UNKNOWN
    local = timezone.localtime(value)
    seconds = int(((now or timezone.now()) - value).total_seconds())
    words = f"{units.duration_words(seconds)} ago" if seconds >= 1 else "now"
    if seconds < -1:
        words = f"in {units.duration_words(-seconds)}"
    title = f"{date_filter(local, 'Y-m-d H:i:s')} {local.tzname()}"
    return format_html('<time class="num" datetime="{}" title="{}">{}</time>', local.isoformat(), title, words)


@register.filter
def in_short(seconds: Any) -> str:
    """Coarse age for live pages: no seconds, so that rows do not change at every look."""
    whole = max(int(seconds or 0), 0)
    return "under 1 min" if whole < 60 else units.duration_words(whole // 60 * 60)


@register.filter
def lookup(mapping: Any, key: Any) -> Any:
    """`mapping[key]`, or nothing."""
    return mapping.get(key) if mapping else None


@register.simple_tag(takes_context=True)
def query_with(context: dict[str, Any], **changes: Any) -> str:
    """The page's own query string with some parameters changed (None removes); paging starts again."""
    query = context["request"].GET.copy()
    if "page" not in changes:
        query.pop("page", None)
    for name, value in changes.items():
        query.pop(name, None)
        if value not in (None, ""):
            query[name] = str(value)
    encoded = query.urlencode()
    return f"?{encoded}" if encoded else context["request"].path


@register.inclusion_tag("components/sort_header.html", takes_context=True)
def sort_header(context: dict[str, Any], listing: Any, key: str, label: str, classes: str = "") -> dict[str, Any]:
    """A column's head that sorts by it on the server."""
    current = listing.sort.removeprefix("-") == key
    descending = current and listing.sort.startswith("-")
    wanted = key if not current or descending else f"-{key}"
    return {
        "url": query_with(context, sort=wanted),
        "label": label,
        "classes": classes,
        "current": current,
        "direction": "descending" if descending else "ascending",
    }


@register.filter
def state_word(key: str) -> str:
    """The word of a standing or a state."""
    return STATE_WORDS.get(key, key)


@register.filter
def error_count(form: Any) -> int:
    """How many complaints a form has."""
    return sum(len(errors) for errors in form.errors.values())


@register.simple_tag
def widget(field: Any) -> SafeString:
    """A form field's control with its look and its ties to hint and error."""
    attrs = {"class": _widget_class(field)}
    described = [f"{field.id_for_label}_hint"] if field.help_text else []
    if field.errors:
        described.insert(0, f"{field.id_for_label}_error")
        attrs["aria-invalid"] = "true"
    if described:
        attrs["aria-describedby"] = " ".join(described)
    return field.as_widget(attrs=attrs)  # type: ignore[no-any-return]


def _widget_class(field: Any) -> str:
    kind = field.field.widget.input_type if hasattr(field.field.widget, "input_type") else ""
    look = {"select": "form-select", "checkbox": "form-check-input"}.get(kind, "form-control")
    own = field.field.widget.attrs.get("class", "")
    return " ".join(part for part in (look, own, "is-invalid" if field.errors else "") if part)


@register.filter
def path_parts(path: str) -> list[tuple[str, str]]:
    """`lab/nlp` as its steps: (`lab`, `lab`), (`nlp`, `lab/nlp`)."""
    parts = path.split("/")
    return [(part, "/".join(parts[: position + 1])) for position, part in enumerate(parts)]


@register.filter
def reason_word(code: str) -> str:
    """The short name of a waiting reason."""
    return reasons.reason_word(code)


@register.filter
def place_free(text: str) -> str:
    """A reason without position and GPUs ahead, which stand in columns of their own."""
    return reasons.place_free(text)


@register.filter
def local_moments(text: str) -> str:
    """A reason with its moments in the site's zone."""
    return reasons.local_moments(text)


@register.filter
def queue_band(row: Any) -> str:
    """The heading under which a waiting workload stands."""
    return reasons.band_words(row.reason_code, row.position)


@register.filter
def tenth(value: str) -> str:
    """A position of a 1000 wide picture as percent."""
    return f"{float(value) / 10:.2f}"


@register.filter
def since(value: datetime, now: datetime) -> str:
    """How long ago, coarse: for pages that refresh."""
    return in_short((now - value).total_seconds())


@register.filter
def clock(value: datetime) -> SafeString:
    """A moment to the second, with its day when that is not today."""
    local = timezone.localtime(value)
    form = "H:i:s" if local.date() == timezone.localtime().date() else "j M H:i:s"
    return format_html(
        '<time class="num" datetime="{}" title="{} {}">{}</time>',
        local.isoformat(),
        date_filter(local, "Y-m-d H:i:s"),
        local.tzname(),
        date_filter(local, form),
    )


@register.filter
def kind_words(kind: str) -> str:
    """`cancel_requested` as people read it."""
    return kind.replace("_", " ").capitalize()


DONE = {
    "submit": "submitted",
    "withdraw": "withdrawn",
    "cancel": "cancelled",
    "set": "set",
    "end": "ended",
    "login": "signed in",
}
ACTIONS = {"membership_set": "Role set", "project_unarchive": "Project brought back"}
THINGS = {"grantrequest": "request", "apitoken": "API token", "budgetchange": "", "hostkey": "host key"}
KINDS = {**THINGS, "budgetchange": "budgets"}


@register.filter
def action_words(action: str) -> str:
    """`budget_change_create` as what was done: `Budget change created`."""
    if action in ACTIONS:
        return ACTIONS[action]
    *what, verb = action.split("_")
    done = DONE.get(verb) or (f"{verb}d" if verb.endswith("e") else f"{verb}ed")
    return " ".join([*what, done]).capitalize().replace("Api ", "API ")


@register.filter
def thing_words(kind: str) -> str:
    """What kind of thing an audit entry is about."""
    return THINGS.get(kind, kind)


@register.filter
def thing_kind(kind: str) -> str:
    """A kind of thing by itself, for a list of them."""
    words = KINDS.get(kind, kind)
    return words[:1].upper() + words[1:]


@register.simple_tag
def project_url(path: str) -> str:
    """The project's page; where that does not exist, its workloads."""
    try:
        return reverse("dashboard:project", kwargs={"path": path})
    except NoReverseMatch:
        return f"{reverse('dashboard:workloads')}?{urlencode({'project': path})}"
