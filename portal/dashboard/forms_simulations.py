"""The form of a new simulation: what is replayed, and what is different in it. Shape and words only."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings

from portal.budgets.selectors import NO_BUDGET, Line
from portal.budgets.services import BURST_GPUS_MAX
from portal.common.errors import CommonsError
from portal.common.units import DAY_SECONDS, duration_words
from portal.dashboard import budget_units
from portal.dashboard.forms import DurationField
from portal.projects.models import Project
from portal.simulations.checking import storable
from portal.simulations.models import Source

SCHEDULERS = [
    ("budgets", "Budgets: as this portal decides"),
    ("priority", "Priority: the old world"),
    ("fifo", "First come, first served"),
    ("sjf", "Shortest job first"),
]
HOSTS_MAX = 100_000
JSON_MAX = 2_000_000
ROWS_SHOWN = 200
DATE = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")


@dataclass(frozen=True)
class BudgetRow:
    """A project's line in the form."""

    project: Project
    depth: int
    stored: Line
    percent: forms.BoundField
    burst: forms.BoundField

    @property
    def errors(self) -> list[str]:
        return [str(error) for field in (self.percent, self.burst) for error in field.errors]


class SimulationForm(forms.Form):
    """One source each: fields of the others are not there. Empty fields of a what-if leave things as they are."""

    title = forms.CharField(max_length=200, help_text="What the list and comparisons call it.")
    scheduler = forms.ChoiceField(choices=SCHEDULERS, label="Who decides")
    lookback = DurationField(label="Lookback window", help_text="How long charged usage counts (R2).")
    min_runtime_max = DurationField(
        label="Cap on minimum runtime", help_text="Longer minimum runtimes are cut to it (R14)."
    )
    partitions = forms.BooleanField(
        required=False,
        label="Static partitions instead of shares",
        help_text="Each project below the root has GPUs of its own, as many as its share, and nobody else's.",
    )
    hosts = forms.IntegerField(min_value=1, max_value=HOSTS_MAX, help_text="More are of the kind that most are.")
    project_limit = forms.IntegerField(
        min_value=1,
        max_value=1_000_000,
        required=False,
        label="Most unfinished",
        help_text="Workloads that one project may have begun and not ended.",
    )
    json = forms.CharField(
        required=False,
        max_length=JSON_MAX,
        strip=False,
        label="Scenario as JSON",
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false"}),
        help_text="Where something stands here, it counts in place of all fields above but the title and the work.",
    )

    def __init__(
        self,
        *args: Any,
        source: str,
        projects: Sequence[Project],
        lines: Mapping[int, Line],
        traces: Sequence[tuple[int, str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.source, self.projects, self.lines = source, projects[:ROWS_SHOWN], lines
        self.rows_left_out = max(len(projects) - ROWS_SHOWN, 0)
        {Source.HISTORY: self._history, Source.TRACE: self._trace, Source.GENERATOR: self._generator}[Source(source)](
            traces
        )
        if source == Source.GENERATOR:
            del self.fields["partitions"]  # it makes its work for one cluster
        if source != Source.TRACE:
            for project in self.projects:
                self._row_add(project)

    def _history(self, traces: Sequence[tuple[int, str]]) -> None:
        self.fields["from"] = forms.DateField(label="From", widget=DATE)
        self.fields["to"] = forms.DateField(
            required=False, label="To, that day included", help_text="Empty: until now.", widget=DATE
        )

    def _trace(self, traces: Sequence[tuple[int, str]]) -> None:
        megabytes = settings.SIMULATION_TRACE_BYTES // 1024**2
        self.fields["upload"] = forms.FileField(
            required=False,
            label="Trace",
            help_text=f"CSV, SWF or sacct --parsable2, at most {megabytes} MB and "
            f"{settings.SIMULATION_TRACE_ROWS:,} rows.",
        )
        self.fields["kept"] = forms.TypedChoiceField(
            required=False,
            label="Or one that you uploaded before",
            coerce=int,
            empty_value=None,
            choices=[("", "None"), *traces],
        )
        self.fields["days"] = self._days(required=False, help_text="Empty: to the end of the trace.")
        self.fields["budgets"] = forms.CharField(
            required=False,
            label="Budgets",
            widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "placeholder": "lab/nlp 60\nlab/vision 40"}),
            help_text="One project of the trace a line, and its percent of its parent; a third number caps its GPUs. "
            "Projects that stand nowhere here run unallocated.",
        )

    def _generator(self, traces: Sequence[tuple[int, str]]) -> None:
        self.fields["seed"] = forms.IntegerField(
            min_value=0, max_value=2**31, help_text="The same gives the same work."
        )
        self.fields["days"] = self._days(help_text="Measured, after the warm-up.")
        self.fields["warmup_days"] = forms.IntegerField(
            min_value=0, max_value=366, label="Warm-up", help_text="Not measured."
        )
        self.fields["whose"] = forms.ChoiceField(
            choices=[("teams", "15 teams of its own"), ("portal", "This portal's projects, with the budgets below")],
            label="Projects",
        )

    def _days(self, **more: Any) -> forms.IntegerField:
        return forms.IntegerField(min_value=1, max_value=3660, label="Days", **more)

    def _row_add(self, project: Project) -> None:
        line = self.lines.get(project.pk, NO_BUDGET)
        look = {"class": "num", "inputmode": "decimal", "autocomplete": "off", "maxlength": 20}
        percent_label, burst_label = f"{project.path}: percent of its parent", f"{project.path}: burst cap in GPUs"
        self.fields[f"percent_{project.pk}"] = forms.CharField(
            max_length=20,
            initial=budget_units.percent_text(line.share_ppm),
            label=percent_label,
            widget=forms.TextInput(attrs={**look, "aria-label": percent_label}),
        )
        self.fields[f"burst_{project.pk}"] = forms.IntegerField(
            required=False,
            min_value=0,
            max_value=BURST_GPUS_MAX,
            initial=line.burst_gpus,
            label=burst_label,
            widget=forms.NumberInput(attrs={"class": "num", "placeholder": "none", "aria-label": burst_label}),
        )

    @property
    def rows(self) -> list[BudgetRow]:
        """Every project below the root, as the template draws it."""
        shallowest = min((project.depth for project in self.projects), default=0)
        return [
            BudgetRow(
                project,
                project.depth - shallowest,
                self.lines.get(project.pk, NO_BUDGET),
                self[f"percent_{project.pk}"],
                self[f"burst_{project.pk}"],
            )
            for project in (self.projects if self.source != Source.TRACE else ())
        ]

    def clean(self) -> dict[str, Any]:
        """Shares into parts per million; the budgets of a trace into lines; the JSON into an object."""
        cleaned = super().clean() or {}
        cleaned["shares"] = dict(self._shares(cleaned))
        if self.source == Source.TRACE:
            if not cleaned.get("upload") and not cleaned.get("kept") and "upload" not in self.errors:
                self.add_error("upload", "Choose a file, or one that you uploaded before.")
            cleaned["budget_lines"] = list(self._budget_lines(cleaned.get("budgets", "")))
        cleaned["given"] = self._given(cleaned.get("json", ""))
        return cleaned

    def _shares(self, cleaned: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, int | None]]]:
        """Those that differ from what is in force."""
        for row in self.rows:
            name = f"percent_{row.project.pk}"
            if cleaned.get(name) is None or f"burst_{row.project.pk}" in self.errors:
                continue
            try:
                share = budget_units.ppm_of_percent(cleaned[name])
            except budget_units.UnitError as error:
                self.add_error(name, str(error))
                continue
            line = Line(share, cleaned.get(f"burst_{row.project.pk}"))
            if line != row.stored:
                yield row.project.path, line

    def _budget_lines(self, text: str) -> Iterator[tuple[str, int, int | None]]:
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.replace(",", " ").split()
            if not words:
                continue
            try:
                yield self._budget_line(words)
            except ValueError as error:
                self.add_error("budgets", f"Line {number}: {error}")

    def _budget_line(self, words: Sequence[str]) -> tuple[str, int, int | None]:
        if len(words) not in (2, 3):
            raise ValueError("write a project, its percent and, if it has one, its cap in GPUs.")
        burst = words[2] if len(words) == 3 else None
        if burst is not None and (not burst.isascii() or not burst.isdigit() or int(burst[:8]) > BURST_GPUS_MAX):
            raise ValueError(f"{burst[:20]!r} is no cap in whole GPUs.")
        return words[0], budget_units.ppm_of_percent(words[1]), None if burst is None else int(burst)

    def _given(self, text: str) -> dict[str, Any] | None:
        if not text.strip():
            return None
        try:
            given = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            self.add_error("json", f"This is not JSON: {error}.")
            return None
        if not storable(json.dumps(given, ensure_ascii=False)):
            self.add_error("json", "A text in it has a NUL or half of a letter.")
            return None
        if not isinstance(given, dict):
            self.add_error("json", "A scenario is an object: { … }.")
            return None
        return given

    def refusal_add(self, error: CommonsError) -> None:
        """What the service refused, beside its field where the form has one."""
        names = {"history": "from", "trace": "upload"}
        for each in error.errors:
            name = names.get(each.attr, each.attr)
            self.add_error(name if name in self.fields else None, each.detail)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def policy_initial(values: Mapping[str, Any]) -> dict[str, Any]:
    """The form's fields of a policy as it is."""
    return {
        "scheduler": "budgets",
        "lookback": duration_text(values["lookback_seconds"]),
        "min_runtime_max": duration_text(values["min_runtime_max_seconds"]),
    }


def duration_text(seconds: int) -> str:
    """As the field reads it back: 7d, 8h, 90m."""
    if seconds and seconds % DAY_SECONDS == 0:
        return f"{seconds // DAY_SECONDS}d"
    return duration_words(seconds).replace(" min", "m").replace(" h", "h").replace(" s", "s").replace(" d", "d")
