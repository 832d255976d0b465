"""Shapes of projects and people in the API."""

from typing import Any

from rest_framework import serializers

from portal.projects.models import Role


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
