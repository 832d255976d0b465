"""Forms: shape and words only. Rules are the services'; what they refuse comes back beside its field."""

import json
import re
import shlex
import uuid
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS

from portal.common.errors import CommonsError
from portal.common.units import DurationError, duration_parse


def errors_into(form: forms.Form, error: CommonsError, renamed: dict[str, str] | None = None) -> None:
    """Put each complaint beside its field; what names no field of the form stands at the top."""
    for complaint in error.errors:
        attr = (renamed or {}).get(complaint.attr, complaint.attr)
        place = attr if attr in form.fields else NON_FIELD_ERRORS
        form.add_error(place, forms.ValidationError(complaint.detail, code=complaint.code))


class DurationField(forms.CharField):
    """A duration as people write it; its value is whole seconds, None when empty."""

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            return duration_parse(text)
        except DurationError as error:
            raise forms.ValidationError(f"{error}.") from None


class TokenForm(forms.Form):
    """A new API token."""

    name = forms.CharField(
        max_length=100, help_text="What will use it: you see this name in the list.", widget=forms.TextInput()
    )
    scope = forms.ChoiceField(choices=[("write", "Read and write"), ("read", "Read only")], label="It may")
    days = forms.ChoiceField(
        choices=[("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "never")],
        required=False,
        initial="90",
        label="It expires after",
    )

    def expires_at(self, now: datetime) -> datetime | None:
        """The moment of expiry, None for never."""
        days = self.cleaned_data["days"]
        return now + timedelta(days=int(days)) if days else None


class ReasonForm(forms.Form):
    """The reason for a cordon."""

    reason = forms.CharField(max_length=300, widget=forms.TextInput(attrs={"autocomplete": "off"}))


class SubmitForm(forms.Form):
    """A workload, as people type it."""

    project = forms.CharField(widget=forms.Select, help_text="Its budget is charged.")
    cluster = forms.CharField(widget=forms.Select, required=False, help_text="Any: whichever can start it first, once.")
    name = forms.CharField(required=False, max_length=200, help_text="Empty: the command's first word.")
    how = forms.ChoiceField(
        choices=[("command", "Command"), ("script", "Script")],
        widget=forms.RadioSelect,
        initial="command",
        label="Runs",
    )
    command = forms.CharField(
        required=False,
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocomplete": "off"}),
        help_text="Program and arguments, split into words as a shell would, then started without one.",
    )
    script = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
        help_text="Begins with #! and the interpreter, like #!/bin/sh; without it /bin/sh runs it.",
    )
    replicas = forms.IntegerField(min_value=1, max_value=10_000, initial=1)
    gpus_per_replica = forms.IntegerField(min_value=1, max_value=1_048_576, initial=1, label="GPUs per replica")
    min_runtime = DurationField(
        initial="15m",
        label="Minimum runtime",
        help_text="The shortest run that makes and saves progress: protected so long. 0: always unallocated.",
    )
    timeout = DurationField(required=False, label="Timeout", help_text="Stopped after so long. Empty: no limit.")
    resumable = forms.BooleanField(
        required=False,
        initial=True,
        label="Resumable",
        help_text="It continues from its last checkpoint when it is started again. If preempted, it is queued again.",
    )
    allow_unallocated = forms.BooleanField(
        required=False,
        initial=True,
        label="May run unallocated",
        help_text="Free of charge, preemptible at any moment, when its project's budget can't fund it.",
    )
    priority = forms.IntegerField(
        min_value=-1000, max_value=1000, initial=0, help_text="Orders work inside this project only. Higher goes first."
    )
    environment = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "placeholder": "NAME=value"}),
        help_text="One NAME=value a line.",
    )
    key = forms.CharField(max_length=64, widget=forms.HiddenInput)

    RENAMED = {
        "clusters": "cluster",
        "min_runtime_seconds": "min_runtime",
        "timeout_seconds": "timeout",
        "idempotency_key": "key",
    }

    def __init__(self, *args: Any, projects: list[str], clusters: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].widget.choices = [(path, path) for path in projects]
        any_cluster = [("", "Any cluster")] if len(clusters) != 1 else []
        self.fields["cluster"].widget.choices = [*any_cluster, *((name, name) for name in clusters)]
        self.fields["key"].initial = uuid.uuid4().hex

    def clean_environment(self) -> dict[str, str]:
        """Lines into names and values."""
        pairs: dict[str, str] = {}
        for number, line in enumerate(self.cleaned_data["environment"].splitlines(), start=1):
            if not line.strip():
                continue
            name, sign, value = line.partition("=")
            if not sign or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
                raise forms.ValidationError(f"Line {number} is not NAME=value.")
            pairs[name.strip()] = value.rstrip("\r")
        return pairs

    def clean(self) -> dict[str, Any]:
        """Exactly one of command and script, the one that was chosen."""
        cleaned = super().clean() or {}
        if cleaned.get("how") == "script":
            cleaned["words"] = []
            if not cleaned.get("script", "").strip() and "script" not in self.errors:
                self.add_error("script", "Write the script that should run.")
        else:
            cleaned["script"] = ""
            cleaned["words"] = self._words(cleaned.get("command", ""))
        return cleaned

    def _words(self, command: str) -> list[str]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            self.add_error("command", f"The command can't be split into words: {str(error).lower()}.")
            return []
        if not words and "command" not in self.errors:
            self.add_error("command", "Write the command that should run.")
        return words

    def body(self) -> dict[str, Any]:
        """What `workload_submit` takes, its author and moment aside; of a field that is wrong, nothing to use."""
        data = self.cleaned_data
        return {
            "project": data.get("project"),
            "clusters": [data["cluster"]] if data.get("cluster") else [],
            "name": data.get("name"),
            "command": data.get("words", []),
            "script": data.get("script", "").replace("\r\n", "\n"),
            "replicas": data.get("replicas"),
            "gpus_per_replica": data.get("gpus_per_replica"),
            "min_runtime_seconds": data.get("min_runtime") or 0,
            "timeout_seconds": data.get("timeout"),
            "resumable": data.get("resumable"),
            "allow_unallocated": data.get("allow_unallocated"),
            "priority": data.get("priority"),
            "environment": data.get("environment"),
            "idempotency_key": data.get("key"),
        }

    def readable(self) -> tuple[dict[str, Any], set[str]]:
        """The part of the body that has the right shape, and the names of what has not."""
        names = {field: attr for attr, field in self.RENAMED.items()}
        wrong = {names.get(field, field) for field in self.errors}
        return {name: value for name, value in self.body().items() if name not in wrong}, wrong


def submit_initial(workload: Any) -> dict[str, Any]:
    """The form filled with an earlier workload, to send it again with changes."""
    environment = "\n".join(f"{name}={value}" for name, value in workload.environment.items())
    return {
        "project": workload.project.path,
        "name": workload.name,
        "how": "script" if workload.script else "command",
        "command": shlex.join(workload.command),
        "script": workload.script,
        "replicas": workload.replicas,
        "gpus_per_replica": workload.gpus_per_replica,
        "min_runtime": _duration_typed(workload.min_runtime_seconds),
        "timeout": "" if workload.timeout_seconds is None else _duration_typed(workload.timeout_seconds),
        "resumable": workload.resumable,
        "allow_unallocated": workload.allow_unallocated,
        "priority": workload.priority,
        "environment": environment,
    }


def _duration_typed(seconds: int) -> str:
    """Seconds as they would be typed: 2h, 90m, 45s, 0."""
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return str(seconds)


def as_json(value: Any) -> str:
    """Compact JSON for showing."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
