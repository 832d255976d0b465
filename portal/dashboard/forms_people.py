"""Forms about people and the project tree: shape and words only."""

from collections.abc import Sequence

from django import forms

from portal.projects.models import Project, Role
from portal.projects.services_invitations import LABEL_LENGTH_MAX
from portal.projects.tree import NAME_LENGTH_MAX, SLUG_LENGTH_MAX

ROLE_CHOICES = [
    (Role.VIEWER, "Viewer: sees it and all below"),
    (Role.MEMBER, "Member: submits, cancels their own"),
    (Role.LEAD, "Lead: sets budgets below, people, cancels any"),
]
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class VersionedForm(forms.Form):
    """A form about what was looked at."""

    base_version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class ProjectNewForm(forms.Form):
    """A project that is to be made."""

    name = forms.CharField(max_length=NAME_LENGTH_MAX, help_text="What people call it; any script, 200 characters.")
    slug = forms.CharField(
        max_length=SLUG_LENGTH_MAX,
        help_text="Its part of the path, in addresses and on the command line: letters, digits, - and _.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    description = forms.CharField(
        required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 3, "class": "prose"})
    )


class ProjectRenameForm(ProjectNewForm, VersionedForm):
    """Name, path and description of a project that is there."""


class ProjectMoveForm(VersionedForm):
    """Where a project is to hang."""

    parent = forms.CharField(label="Below", widget=forms.Select, help_text="Projects that you lead.")

    def __init__(self, *args: object, targets: Sequence[Project], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        widget = self.fields["parent"].widget
        widget.choices = [("", "Choose"), *((each.path, each.path) for each in targets)]


class RoleForm(forms.Form):
    """A role for somebody who has an account."""

    user = forms.CharField(max_length=150, label="User name", widget=forms.TextInput(attrs=PLAIN))
    role = forms.ChoiceField(choices=ROLE_CHOICES, initial=Role.MEMBER)


class RoleChangeForm(forms.Form):
    """Another role, or none, for somebody in the list."""

    user = forms.CharField(max_length=150)
    role = forms.ChoiceField(choices=[("", "none"), *Role.choices], required=False)
    base_version = forms.IntegerField(min_value=0)


class InviteForm(forms.Form):
    """An invitation by link."""

    label = forms.CharField(
        max_length=LABEL_LENGTH_MAX,
        label="For whom",
        help_text="As you will find it in the list; they choose their user name.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    invite_role = forms.ChoiceField(choices=ROLE_CHOICES, initial=Role.MEMBER, label="Role")


class AcceptForm(forms.Form):
    """The account that an invited person makes."""

    username = forms.CharField(
        max_length=150,
        label="User name",
        help_text="Letters, digits and @ . + - _",
        widget=forms.TextInput(attrs={"autocomplete": "username", "spellcheck": "false"}),
    )
    password = forms.CharField(
        strip=False, max_length=1000, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    again = forms.CharField(
        strip=False,
        max_length=1000,
        label="Password again",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or {}
        if {"password", "again"} <= cleaned.keys() and cleaned["password"] != cleaned["again"]:
            self.add_error("again", "This is another password than the one above.")
        return cleaned
