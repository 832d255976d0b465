"""Forms of requests and proposals: shape and words. The rules are the services'."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings

from portal.budgets.selectors import NO_BUDGET, Line
from portal.clusters.models import Cluster
from portal.dashboard.forms_budgets import LevelForm
from portal.projects.models import Project
from portal.proposals.models import GrantRequest
from portal.proposals.services.requests import GPUS_MAX, TEXT_LENGTH_MAX, TITLE_LENGTH_MAX

MOMENT_FORMATS = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"]


def moment_field(label: str, help_text: str) -> forms.DateTimeField:
    """A moment in the site's zone."""
    return forms.DateTimeField(
        label=label,
        help_text=help_text,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=MOMENT_FORMATS,
    )


def prose_field(label: str, help_text: str, *, rows: int = 4, required: bool = True, missing: str = "") -> Any:
    """A text of some sentences."""
    return forms.CharField(
        label=label,
        help_text=help_text,
        max_length=TEXT_LENGTH_MAX,
        required=required,
        widget=forms.Textarea(attrs={"rows": rows, "class": "prose"}),
        error_messages={"required": missing or "This is needed."},
    )


class RequestForm(forms.Form):
    """A lead's request. The project and cluster are chosen once, when it is made."""

    project = forms.ChoiceField(help_text="That is to hold the GPUs.")
    cluster = forms.ChoiceField()
    title = forms.CharField(
        max_length=TITLE_LENGTH_MAX,
        help_text="What the others read in the list.",
        error_messages={"required": "Give the request a title."},
    )
    purpose = prose_field("What for", "What the GPUs will do.", missing="Say what the GPUs are for.")
    impact = prose_field(
        "Expected impact", "What should come of it, and how that will be seen.", missing="Say what impact is expected."
    )
    gpus = forms.IntegerField(
        label="GPUs",
        min_value=1,
        max_value=GPUS_MAX,
        help_text="That the project should hold altogether, what it holds now included.",
    )
    from_at = moment_field("From", f"In {settings.SITE_ZONE}.")
    until_at = moment_field("Until", "You are reminded in the week before.")

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        projects: Sequence[Project],
        clusters: Sequence[Cluster],
        request: GrantRequest | None = None,
        initial: dict[str, Any] | None = None,
    ) -> None:
        kept = ("title", "purpose", "impact", "gpus", "from_at", "until_at")
        said = {name: getattr(request, name) for name in kept} if request else {}
        super().__init__(data, initial={**(initial or {}), **said})
        if request is not None:
            del self.fields["project"], self.fields["cluster"]
            return
        self._choices("project", [(each.path, each.path) for each in projects])
        self._choices("cluster", [(each.name, each.name) for each in clusters])

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - says to the type checker what stands above
        field.choices = choices

    def said(self) -> dict[str, Any]:
        """What the services take."""
        return {name: value for name, value in self.cleaned_data.items() if name not in ("project", "cluster")}


class DecisionForm(forms.Form):
    """Why: kept beside the decision."""

    reason = prose_field("Reason", "Stands beside the decision for everybody who sees it.", rows=3, missing="Say why.")


class WithdrawForm(forms.Form):
    """Why, if it helps."""

    reason = prose_field("Reason", "For those who wonder.", rows=2, required=False)


class CommentForm(forms.Form):
    """Something to say."""

    text = prose_field(
        "Comment", "Plain text. It can't be changed or deleted later.", rows=3, missing="Write what you want to say."
    )


class ProposalForm(LevelForm):
    """A draft of one level: as a level's form, with a title, the case, and the requests that it takes up.

    `lines` are today's budgets, what the effect is measured against; `draft` is what the fields show.
    """

    title = forms.CharField(
        max_length=TITLE_LENGTH_MAX,
        help_text="What the others read in the list.",
        error_messages={"required": "Give the proposal a title."},
    )
    requests = forms.TypedMultipleChoiceField(
        coerce=int, required=False, label="Takes up", widget=forms.CheckboxSelectMultiple
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        draft: Mapping[int, Line],
        open_requests: Sequence[GrantRequest] = (),
        said: dict[str, Any] | None = None,
        **level: Any,
    ) -> None:
        super().__init__(data, **level)
        self.initial.update(said or {})
        reason = self.fields["reason"]
        reason.label, reason.help_text = (
            "The case for it",
            "Why, and what should come of it. It is kept with the change.",
        )
        self.fields["effective_at"].help_text = f"Empty: when it is approved. In {settings.SITE_ZONE}."
        choices = [(each.pk, f"{each.title}: {each.gpus} GPUs for {each.project.path}") for each in open_requests]
        requests = self.fields["requests"]
        assert isinstance(requests, forms.TypedMultipleChoiceField)  # noqa: S101 - for the type checker
        requests.choices = choices
        for child in self.children:
            self._show(child, draft.get(child.pk, NO_BUDGET))

    def _show(self, child: Project, line: Line) -> None:
        """Let the row's fields begin with the draft's budget."""
        texts = self._texts(line)
        for unit, text in texts.items():
            self.fields[f"{unit}_{child.pk}"].initial = text
        self.fields[f"burst_{child.pk}"].initial = line.burst_gpus
        self.fields[f"shown_{child.pk}"].initial = "|".join([*texts.values(), str(line.share_ppm)])

    @property
    def total_ppm(self) -> int:
        """The total as typed where it can be read, else as the draft has it."""
        shares = getattr(self, "shares", {})
        return sum(shares.get(child.pk, self._begun_ppm(child)) for child in self.children)

    def _begun_ppm(self, child: Project) -> int:
        return int(str(self.fields[f"shown_{child.pk}"].initial).rpartition("|")[2])

    def effective(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["effective_at"]
        return moment
