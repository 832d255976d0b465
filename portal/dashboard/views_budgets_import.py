"""Budgets of the whole tree from a file: checked line by line, then all levels changed together, or none."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.budgets.csv_import import ImportPlan, budgets_import, budgets_plan
from portal.budgets.csv_rows import BYTES_MAX, READ, text_decode
from portal.common.errors import CommonsError, Conflict, Forbidden, Refused
from portal.dashboard.budget_history import move_words, planned_words
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import form_page
from portal.dashboard.people import person_of
from portal.dashboard.project_tree import editable_paths


class ImportForm(forms.Form):
    """A file or its text, the reason, and when it takes effect. After a check the text stands in the form."""

    file = forms.FileField(
        required=False,
        label="File",
        help_text="A CSV as it was exported, edited in a spreadsheet. Saved as CSV UTF-8.",
        widget=forms.ClearableFileInput(attrs={"accept": ".csv,text/csv", "class": "form-control"}),
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or its text",
        max_length=BYTES_MAX,
        help_text="What was read from the file stands here after a check and can be put right in place.",
        widget=forms.Textarea(attrs={"rows": 8, "class": "code", "spellcheck": "false", "wrap": "off"}),
    )
    reason = forms.CharField(
        label="Reason",
        required=False,
        max_length=10_000,
        help_text="Stands beside every change that the file makes. Needed to import, not to check.",
        widget=forms.Textarea(attrs={"rows": 2, "class": "prose"}),
    )
    effective_at = forms.DateTimeField(
        required=False,
        label="Takes effect",
        help_text=f"Empty: at once. In {settings.SITE_ZONE}, such as 2026-12-01 08:00.",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "class": "form-control"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        uploaded = cleaned.get("file")
        if uploaded is not None:
            cleaned["text"] = self._file_text(uploaded)
        if not cleaned.get("text", "").strip() and not self.errors:
            self.add_error("file", "Choose a file, or write its text below.")
        return cleaned

    def _file_text(self, uploaded: Any) -> str:
        if uploaded.size > BYTES_MAX:
            self.add_error("file", f"The file is larger than {BYTES_MAX:,} bytes, the most that is read.")
            return ""
        try:
            return text_decode(uploaded.read())
        except ValueError as error:
            self.add_error("file", str(error))
            return ""

    def with_text(self) -> "ImportForm":
        """The same with the file's text in the form, so that it needs no choosing again."""
        again = ImportForm({**dict(self.data.items()), "text": self.cleaned_data.get("text", "")})
        again.is_valid()
        return again


@form_page
def budgets_file(request: HttpRequest) -> HttpResponse:
    """Check a file of budgets, or import it."""
    if editable_paths(user=person_of(request)) == []:
        raise Forbidden("You lead no project: you may read budgets, not import them.")
    if request.method != "POST":
        return _page(request, ImportForm())
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, form, status=400)
    form = form.with_text()
    text, effective_at = form.cleaned_data["text"], form.cleaned_data["effective_at"]
    user, now = person_of(request), frame_of(request).now
    plan = budgets_plan(text=text, user=user, effective_at=effective_at, now=now)
    if "import" not in request.POST:
        return _page(request, form, plan, status=400 if plan.errors else 200)
    try:
        made = budgets_import(
            text=text, reason=form.cleaned_data["reason"], author=user, effective_at=effective_at, now=now
        )
    except (Refused, Conflict) as error:
        _refusal_add(form, error)
        return _page(request, form, plan, status=error.status)
    levels = "1 level has" if len(made) == 1 else f"{len(made)} levels have"
    planned = [words for edit in plan.edits for words in planned_words(edit.planned)]
    done = " ".join([f"Imported: {levels} new budgets.", *planned])
    messages.success(request, done if made else "The file changes nothing.")
    return redirect(reverse("dashboard:budgets") + frame_of(request).query)


def _refusal_add(form: ImportForm, error: CommonsError) -> None:
    """What isn't said of a line already."""
    for each in error.errors:
        if not each.attr.startswith("csv."):
            form.add_error(each.attr if each.attr in form.fields else None, each.detail)


def _page(request: HttpRequest, form: ImportForm, plan: ImportPlan | None = None, *, status: int = 200) -> HttpResponse:
    edits = plan.edits if plan else ()
    context = {
        "form": form,
        "plan": plan,
        "levels": [(edit, [move_words(move) for move in edit.moves], planned_words(edit.planned)) for edit in edits],
        "columns_read": READ,
        "status": status,
    }
    return render(request, "dashboard/budgets_import.html", context, status=status)
