"""The form of one level of budgets: every child's share in one of four units, a reason, the version it is based on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from django import forms
from django.conf import settings
from django.utils.functional import cached_property
from django.utils.safestring import SafeString, mark_safe

from portal.budgets.selectors import NO_BUDGET, Line
from portal.budgets.services import BURST_GPUS_MAX
from portal.common.errors import CommonsError
from portal.common.units import PPM
from portal.dashboard import budget_units
from portal.dashboard.budget_units import UNIT_SIGNS, UNIT_WORDS, UNITS
from portal.projects.models import Project

UNIT_CHOICES = [(unit, unit) for unit in ("", *UNITS)]


class PlainInput(forms.TextInput):
    """An input written without a template: a level has seven of them for each child, and may have hundreds."""

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        shown = self.get_context(name, value, attrs)["widget"]
        given = {} if shown["value"] is None else {"value": shown["value"]}
        everything = {"type": self.input_type, "name": name, **given, **shown["attrs"]}
        parts = [f'{key}="{escape(str(text))}"' for key, text in everything.items() if text not in (None, False)]
        return mark_safe(f"<input {' '.join(parts)}>")  # noqa: S308 - each value is escaped, each key is ours


class PlainNumber(PlainInput):
    input_type = "number"


class PlainHidden(PlainInput):
    input_type = "hidden"


@dataclass(frozen=True)
class RowFields:
    """A child's line in the form, as the template draws it."""

    project: Project
    stored: Line
    percent: forms.BoundField
    cluster: forms.BoundField | None
    gpus: forms.BoundField
    hours: forms.BoundField
    burst: forms.BoundField
    unit: forms.BoundField
    shown: forms.BoundField
    theirs: Line | None
    kept: str

    @property
    def errors(self) -> list[str]:
        fields = (self.percent, self.cluster, self.gpus, self.hours, self.burst, self.shown)
        return [str(error) for field in fields if field is not None for error in field.errors]

    @property
    def theirs_words(self) -> str:
        """What the other person set, where it differs from what this edit was based on."""
        return f"{budget_units.percent_text(self.theirs.share_ppm)} %" if self.theirs is not None else ""

    @property
    def stored_percent(self) -> str:
        return budget_units.percent_text(self.stored.share_ppm)


class LevelForm(forms.Form):
    """All children of one parent on one cluster.

    Which of a row's units counts: the one that the page's script marked as edited last; without the script, the one
    that differs from what was shown, which each row carries along. Percent of the cluster is one of them where the
    parent's share is given.
    """

    base_version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    effective_at = forms.DateTimeField(
        required=False,
        label="Takes effect",
        help_text=f"Empty: at once. In {settings.SITE_ZONE}, such as 2026-12-01 08:00.",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "class": "form-control"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
    )
    reason = forms.CharField(
        label="Reason",
        max_length=10_000,
        help_text="What the others read in the history: why, and what should come of it.",
        widget=forms.Textarea(attrs={"rows": 2, "class": "prose"}),
        error_messages={"required": "Give the reason for this change."},
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        children: Sequence[Project],
        lines: Mapping[int, Line],
        parent_gpus: Fraction,
        version: int,
        theirs: Mapping[int, Line] | None = None,
        parent_share: Fraction = Fraction(0),
    ) -> None:
        super().__init__(data, initial={"base_version": version})
        self.children = children
        self.lines = {child.pk: lines.get(child.pk, NO_BUDGET) for child in children}
        self.parent_gpus = parent_gpus
        wholes = budget_units.wholes_of(parent_share=parent_share, parent_gpus=parent_gpus)
        self.wholes = {unit: whole for unit, whole in wholes.items() if unit != "cluster" or whole}
        self.theirs = theirs or {}
        for child in children:
            self._row_add(child)

    def _row_add(self, child: Project) -> None:
        line = self.lines[child.pk]
        for unit, text in self._texts(line).items():
            widget = PlainInput(
                attrs={
                    "class": "form-control num",
                    "inputmode": "decimal",
                    "autocomplete": "off",
                    "maxlength": 60,
                    "data-unit": unit,
                    "aria-label": f"{child.name}: {UNIT_WORDS[unit]}",
                }
            )
            self.fields[f"{unit}_{child.pk}"] = forms.CharField(
                required=False,
                max_length=60,
                initial=text,
                label=f"{child.name}, {UNIT_WORDS[unit]}",
                widget=widget,
                disabled=not self.wholes[unit],
            )
        self.fields[f"burst_{child.pk}"] = forms.IntegerField(
            required=False,
            min_value=0,
            max_value=BURST_GPUS_MAX,
            initial=line.burst_gpus,
            label=f"{child.name}, burst cap in GPUs",
            widget=PlainNumber(
                attrs={
                    "class": "form-control num",
                    "min": 0,
                    "max": BURST_GPUS_MAX,
                    "placeholder": "none",
                    "aria-label": f"{child.name}: burst cap in GPUs",
                }
            ),
        )
        self.fields[f"unit_{child.pk}"] = forms.ChoiceField(required=False, choices=UNIT_CHOICES, widget=PlainHidden)
        self.fields[f"shown_{child.pk}"] = forms.RegexField(
            rf"^[0-9.]{{1,30}}(\|[0-9.]{{1,30}}){{{len(self.wholes) - 1}}}\|[0-9]{{1,7}}$",
            initial=self.shown_text(child),
            widget=PlainHidden,
            error_messages={"required": "The form is incomplete; open it again.", "invalid": "Open the form again."},
        )

    def shown_text(self, child: Project) -> str:
        """What the row shows before anybody typed, and the share behind it."""
        line = self.lines[child.pk]
        return "|".join([*self._texts(line).values(), str(line.share_ppm)])

    def _texts(self, line: Line) -> dict[str, str]:
        return {unit: budget_units.amount_text(line.share_ppm, unit, whole) for unit, whole in self.wholes.items()}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        self.shares: dict[int, int] = {}
        for child in self.children:
            unit = "percent"
            try:
                unit = self._unit_of(child, cleaned)
                self.shares[child.pk] = self._share_ppm(child, unit, cleaned)
            except budget_units.UnitError as error:
                self.add_error(f"{unit}_{child.pk}", str(error))
        return cleaned

    def _shown(self, child: Project, cleaned: Mapping[str, Any]) -> tuple[dict[str, str], int]:
        *texts, ppm = (cleaned.get(f"shown_{child.pk}") or self.shown_text(child)).split("|")
        return dict(zip(self.wholes, texts, strict=True)), int(ppm)

    def _share_ppm(self, child: Project, unit: str, cleaned: Mapping[str, Any]) -> int:
        shown, ppm = self._shown(child, cleaned)
        text = cleaned.get(f"{unit}_{child.pk}") or ""
        if text == shown[unit]:
            return ppm  # as it was shown: nothing of it was cut off
        return budget_units.ppm_of(text or "0", unit, self.wholes[unit])

    def _unit_of(self, child: Project, cleaned: Mapping[str, Any]) -> str:
        if (marked := cleaned.get(f"unit_{child.pk}")) in self.wholes:
            return str(marked)
        shown, _ = self._shown(child, cleaned)
        sent = [unit for unit in self.wholes if f"{unit}_{child.pk}" in self.data]
        typed = {unit: cleaned.get(f"{unit}_{child.pk}") for unit in sent}
        changed = [unit for unit, text in typed.items() if text is not None and (text or "0") != shown[unit]]
        if len(changed) > 1:
            words = " and in ".join(UNIT_WORDS[unit] for unit in changed)
            raise budget_units.UnitError(f"{child.name} was changed in {words}; change one of them.")
        return changed[0] if changed else "percent"

    def untouched(self, child: Project) -> bool:
        """Whether the row was sent as it was shown."""
        _, ppm = self._shown(child, self.cleaned_data)
        return not self.cleaned_data.get(f"unit_{child.pk}") and self.shares.get(child.pk) == ppm

    def texts_of(self, child: Project) -> dict[str, str]:
        """The row's fields as they would be shown anew."""
        texts = {f"{unit}_{child.pk}": text for unit, text in self._texts(self.lines[child.pk]).items()}
        burst = self.lines[child.pk].burst_gpus
        return texts | {
            f"shown_{child.pk}": self.shown_text(child),
            f"burst_{child.pk}": "" if burst is None else str(burst),
        }

    def line_inputs(self) -> list[tuple[Project, int, int | None]]:
        """What the service takes, once the form is valid."""
        return [(child, self.shares[child.pk], self.cleaned_data[f"burst_{child.pk}"]) for child in self.children]

    def refusal_add(self, error: CommonsError) -> None:
        """What the service refused, beside its field where the form has one, else at the top."""
        for each in error.errors:
            self.add_error(each.attr if each.attr in self.fields else None, each.detail)

    @cached_property
    def rows(self) -> list[RowFields]:
        return [
            RowFields(
                project=child,
                stored=self.lines[child.pk],
                percent=self[f"percent_{child.pk}"],
                cluster=self[f"cluster_{child.pk}"] if "cluster" in self.wholes else None,
                gpus=self[f"gpus_{child.pk}"],
                hours=self[f"hours_{child.pk}"],
                burst=self[f"burst_{child.pk}"],
                unit=self[f"unit_{child.pk}"],
                shown=self[f"shown_{child.pk}"],
                theirs=self.theirs.get(child.pk),
                kept=self.kept_words(child),
            )
            for child in self.children
        ]

    def kept_words(self, child: Project) -> str:
        """What will be kept, where that is not to the digit what was typed."""
        ppm = getattr(self, "shares", {}).get(child.pk)
        if ppm is None or not self.is_bound:
            return ""
        unit = self._unit_of(child, self.cleaned_data)
        typed = budget_units.amount_parse(self.cleaned_data.get(f"{unit}_{child.pk}") or "0", unit=UNIT_SIGNS[unit])
        if self.untouched(child) or typed * PPM == self.wholes[unit] * ppm:
            return ""
        return budget_units.kept_words(ppm, self.parent_gpus)

    def lines_typed(self) -> dict[int, Line]:
        """The level as typed where it can be read, else as stored."""
        shares, cleaned = getattr(self, "shares", {}), getattr(self, "cleaned_data", {})
        return {
            child.pk: Line(
                shares.get(child.pk, self.lines[child.pk].share_ppm),
                cleaned.get(f"burst_{child.pk}", self.lines[child.pk].burst_gpus),
            )
            for child in self.children
        }

    @property
    def effects(self) -> list[str]:
        """Each change in words."""
        return [words for child in self.children for words in self._effects_of(child)]

    def _effects_of(self, child: Project) -> list[str]:
        shares, line, words = getattr(self, "shares", {}), self.lines[child.pk], []
        share_ppm = shares.get(child.pk, line.share_ppm)
        if share_ppm != line.share_ppm:
            words.append(budget_units.effect_words(child.name, line.share_ppm, share_ppm, self.parent_gpus))
        burst_gpus = getattr(self, "cleaned_data", {}).get(f"burst_{child.pk}", line.burst_gpus)
        if burst_gpus != line.burst_gpus:
            words.append(budget_units.burst_words(child.name, line.burst_gpus, burst_gpus))
        return words

    @property
    def total_ppm(self) -> int:
        """The total as typed where it can be read, else as stored."""
        shares = getattr(self, "shares", {})
        return sum(shares.get(child.pk, self.lines[child.pk].share_ppm) for child in self.children)
