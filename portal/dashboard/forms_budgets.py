"""The form of one level of budgets: every child's share in one of three units, a reason, the version it is based on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django import forms
from django.conf import settings
from django.utils.functional import cached_property

from portal.budgets.selectors import NO_BUDGET, Line
from portal.budgets.services import BURST_GPUS_MAX
from portal.common.errors import CommonsError
from portal.dashboard import budget_units
from portal.projects.models import Project

UNITS = ("percent", "gpus", "hours")
UNIT_WORDS = {"percent": "percent of the parent", "gpus": "GPUs", "hours": "GPU-hours per week"}


@dataclass(frozen=True)
class RowFields:
    """A child's line in the form, as the template draws it."""

    project: Project
    stored: Line
    percent: forms.BoundField
    gpus: forms.BoundField
    hours: forms.BoundField
    burst: forms.BoundField
    unit: forms.BoundField
    shown: forms.BoundField
    theirs: Line | None

    @property
    def errors(self) -> list[str]:
        fields = (self.percent, self.gpus, self.hours, self.burst, self.shown)
        return [str(error) for field in fields for error in field.errors]

    @property
    def theirs_words(self) -> str:
        """What the other person set, where it differs from what this edit was based on."""
        return f"{budget_units.percent_text(self.theirs.share_ppm)} %" if self.theirs is not None else ""

    @property
    def stored_percent(self) -> str:
        return budget_units.percent_text(self.stored.share_ppm)


class LevelForm(forms.Form):
    """All children of one parent on one cluster.

    Which of a row's three units counts: the one that the page's script marked as edited last; without the script, the
    one that differs from what was shown, which each row carries along.
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
    ) -> None:
        super().__init__(data, initial={"base_version": version})
        self.children = children
        self.lines = {child.pk: lines.get(child.pk, NO_BUDGET) for child in children}
        self.parent_gpus = parent_gpus
        self.theirs = theirs or {}
        for child in children:
            self._row_add(child)

    def _row_add(self, child: Project) -> None:
        line = self.lines[child.pk]
        for unit, text in self._texts(line).items():
            widget = forms.TextInput(
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
                disabled=unit != "percent" and not self.parent_gpus,
            )
        self.fields[f"burst_{child.pk}"] = forms.IntegerField(
            required=False,
            min_value=0,
            max_value=BURST_GPUS_MAX,
            initial=line.burst_gpus,
            label=f"{child.name}, burst cap in GPUs",
            widget=forms.NumberInput(
                attrs={
                    "class": "form-control num",
                    "placeholder": "none",
                    "aria-label": f"{child.name}: burst cap in GPUs",
                }
            ),
        )
        self.fields[f"unit_{child.pk}"] = forms.ChoiceField(
            required=False, choices=[(unit, unit) for unit in ("", *UNITS)], widget=forms.HiddenInput
        )
        self.fields[f"shown_{child.pk}"] = forms.RegexField(
            r"^[0-9.]{1,30}(\|[0-9.]{1,30}){2}\|[0-9]{1,7}$",
            initial=self.shown_text(child),
            widget=forms.HiddenInput,
            error_messages={"required": "The form is incomplete; open it again.", "invalid": "Open the form again."},
        )

    def shown_text(self, child: Project) -> str:
        """What the row shows before anybody typed, and the share behind it."""
        line = self.lines[child.pk]
        return "|".join([*self._texts(line).values(), str(line.share_ppm)])

    def _texts(self, line: Line) -> dict[str, str]:
        return {
            "percent": budget_units.percent_text(line.share_ppm),
            "gpus": budget_units.gpus_text(line.share_ppm, self.parent_gpus),
            "hours": budget_units.hours_text(line.share_ppm, self.parent_gpus),
        }

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
        return dict(zip(UNITS, texts, strict=True)), int(ppm)

    def _share_ppm(self, child: Project, unit: str, cleaned: Mapping[str, Any]) -> int:
        shown, ppm = self._shown(child, cleaned)
        text = cleaned.get(f"{unit}_{child.pk}") or ""
        if text == shown[unit]:
            return ppm  # as it was shown: nothing of it was cut off
        readers: dict[str, Callable[[], int]] = {
            "percent": lambda: budget_units.ppm_of_percent(text or "0"),
            "gpus": lambda: budget_units.ppm_of_gpus(text or "0", self.parent_gpus),
            "hours": lambda: budget_units.ppm_of_hours(text or "0", self.parent_gpus),
        }
        return readers[unit]()

    def _unit_of(self, child: Project, cleaned: Mapping[str, Any]) -> str:
        if marked := cleaned.get(f"unit_{child.pk}"):
            return str(marked)
        shown, _ = self._shown(child, cleaned)
        typed = {unit: cleaned.get(f"{unit}_{child.pk}") for unit in UNITS}
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
                gpus=self[f"gpus_{child.pk}"],
                hours=self[f"hours_{child.pk}"],
                burst=self[f"burst_{child.pk}"],
                unit=self[f"unit_{child.pk}"],
                shown=self[f"shown_{child.pk}"],
                theirs=self.theirs.get(child.pk),
            )
            for child in self.children
        ]

    @property
    def effects(self) -> list[str]:
        """Each change in words."""
        shares = getattr(self, "shares", {})
        return [
            budget_units.effect_words(child.name, self.lines[child.pk].share_ppm, shares[child.pk], self.parent_gpus)
            for child in self.children
            if child.pk in shares and shares[child.pk] != self.lines[child.pk].share_ppm
        ]

    @property
    def total_ppm(self) -> int:
        """The total as typed where it can be read, else as stored."""
        shares = getattr(self, "shares", {})
        return sum(shares.get(child.pk, self.lines[child.pk].share_ppm) for child in self.children)
