"""Shapes of projects and people in the API."""

from typing import Any

from rest_framework import serializers

from portal.common.serializers import StrictSerializer, TextField, WholeField
from portal.projects.models import Role

VERSION_MAX = 2**31 - 1
SEEN = "The version that you looked at; a newer one answers 409. Left out: whatever it is."


class ProjectSerializer(serializers.Serializer[Any]):
    """A project: a node of the tree."""

    id = serializers.IntegerField()
    path = serializers.CharField()
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    parent = serializers.CharField(  # type: ignore[assignment]  # a field of ours; the base has an attribute so named
        allow_null=True, help_text="Path of the parent; null: the root."
    )
    depth = serializers.IntegerField()
    is_demonstration = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField(help_text="Counts its own changes: what an edit is based on.")


class ProjectCreateSerializer(StrictSerializer):
    """A new project."""

    parent = TextField(help_text="Path or id of the project that it stands below.")  # type: ignore[assignment]
    slug = TextField(help_text="Its part of the path.")
    name = TextField()
    description = TextField(required=False, allow_blank=True, default="")


class ProjectChangeSerializer(StrictSerializer):
    """What is to change; what is left out stays."""

    slug = TextField(required=False, help_text="Its path and those of all below it follow; old paths lead here.")
    name = TextField(required=False)
    description = TextField(required=False, allow_blank=True)
    base_version = WholeField(low=0, high=VERSION_MAX, required=False, help_text=SEEN)


class ProjectMoveSerializer(StrictSerializer):
    """Where to."""

    parent = TextField(help_text="Path or id of the new parent.")  # type: ignore[assignment]
    base_version = WholeField(low=0, high=VERSION_MAX, required=False, help_text=SEEN)


class BaseVersionSerializer(StrictSerializer):
    """What was looked at."""

    base_version = WholeField(low=0, high=VERSION_MAX, required=False, help_text=SEEN)


class MembershipSerializer(serializers.Serializer[Any]):
    """A person's role on a project; it holds for all below it."""

    id = serializers.IntegerField()
    project = serializers.CharField()
    user = serializers.CharField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="Counts its changes: what an edit is based on.")


class MembershipCreateSerializer(StrictSerializer):
    """A role for somebody who has an account."""

    project = TextField(help_text="Path or id.")
    user = TextField(help_text="Their user name.")
    role = serializers.ChoiceField(choices=Role.choices)
    base_version = WholeField(low=0, high=VERSION_MAX, required=False, help_text=SEEN + " 0: no role yet.")


class MembershipChangeSerializer(StrictSerializer):
    """Another role."""

    role = serializers.ChoiceField(choices=Role.choices)
    base_version = WholeField(low=0, high=VERSION_MAX, required=False, help_text=SEEN)


class InvitationSerializer(serializers.Serializer[Any]):
    """An invitation by link. `link` is in the answer that made it and nowhere else."""

    id = serializers.IntegerField()
    project = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    label = serializers.CharField(help_text="For whom it is.")  # type: ignore[assignment]  # as above
    invited_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    accepted_at = serializers.DateTimeField(allow_null=True)
    accepted_by = serializers.CharField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class InvitationMadeSerializer(InvitationSerializer):
    """As above, with its link."""

    link = serializers.CharField()


class InvitationCreateSerializer(StrictSerializer):
    """Whom to invite to what."""

    project = TextField(help_text="Path or id.")
    role = serializers.ChoiceField(choices=Role.choices)
    label = TextField(help_text="For whom it is, as you will find it in the list.")  # type: ignore[assignment]


class AuditEntrySerializer(serializers.Serializer[Any]):
    """One change. `before` and `after` hold what changed; `before` is empty for what is new."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(allow_null=True, help_text="User name; null: the portal itself.")
    action = serializers.CharField()
    target_type = serializers.CharField()
    target_id = serializers.IntegerField()
    target_name = serializers.CharField()
    before = serializers.DictField()
    after = serializers.DictField()
    reason = serializers.CharField()


class RoleSerializer(serializers.Serializer[Any]):
    """A role held on a project and all below it."""

    project = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)


class TokenSerializer(serializers.Serializer[Any]):
    """The token of this request."""

    name = serializers.CharField()
    prefix = serializers.CharField()
    scope = serializers.CharField()
    expires_at = serializers.DateTimeField(allow_null=True)


class PersonSerializer(serializers.Serializer[Any]):
    """Who is asking."""

    username = serializers.CharField()
    name = serializers.CharField()
    email = serializers.CharField()
    is_administrator = serializers.BooleanField()
    is_operator = serializers.BooleanField()
    roles = RoleSerializer(many=True)
    token = TokenSerializer(allow_null=True, help_text="null: signed in by a session.")
