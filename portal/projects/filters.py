"""Filters of the lists of projects, of people's roles and of the audit log."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet

from portal.common.filters import MomentFilter
from portal.common.models import AuditEntry
from portal.projects.models import Invitation, Membership, Project, Role
from portal.projects.references import project_of_parameter

SYSTEM = "(system)"
"""Stands for the portal itself where a user name is asked for: nobody can be called that."""


class ProjectFilter(django_filters.FilterSet):  # type: ignore[misc]
    """`under=lab/nlp`: that project and all below it; `parent=lab`: its children; `name` holds that text."""

    under = django_filters.CharFilter(method="under_filter", label="That project and all below it: path or id.")
    parent = django_filters.CharFilter(method="parent_filter", label="The children of that project: path or id.")
    name = django_filters.CharFilter(lookup_expr="icontains", label="The name holds that text.")
    archived = django_filters.BooleanFilter(
        field_name="archived_at", lookup_expr="isnull", exclude=True, label="Whether it is archived."
    )

    class Meta:
        model = Project
        fields = ("under", "parent", "name", "archived")

    def under_filter(self, queryset: QuerySet[Project], name: str, value: str) -> QuerySet[Project]:
        top = project_of_parameter(user=self.request.user, name=name, value=value)
        return queryset.filter(Q(pk=top.pk) | Q(path__startswith=f"{top.path}/"))

    def parent_filter(self, queryset: QuerySet[Project], name: str, value: str) -> QuerySet[Project]:
        return queryset.filter(parent=project_of_parameter(user=self.request.user, name=name, value=value))


class UnderProjectFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Rows of that project and of all below it."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        top = project_of_parameter(user=self.parent.request.user, name="project", value=value)
        return qs.filter(Q(project=top) | Q(project__path__startswith=f"{top.path}/"))


class MembershipFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Whose roles, and where."""

    project = UnderProjectFilter(label="That project and all below it: path or id.")
    user = django_filters.CharFilter(field_name="user__username", label="The person's user name.")
    role = django_filters.ChoiceFilter(choices=Role.choices)

    class Meta:
        model = Membership
        fields = ("project", "user", "role")


class InvitationFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Invitations where."""

    project = UnderProjectFilter(label="That project and all below it: path or id.")

    class Meta:
        model = Invitation
        fields = ("project",)


class AuditFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Who changed what, and when."""

    actor = django_filters.CharFilter(method="actor_filter", label="A user name; (system) is the portal itself.")
    action = django_filters.CharFilter(label="As the entries name it, like budget_change_create.")
    target_type = django_filters.CharFilter(label="The kind of thing, like project.")
    target_id = django_filters.NumberFilter(min_value=0, max_value=2**53, label="Its id.")
    target = django_filters.CharFilter(
        field_name="target_name", lookup_expr="icontains", label="Its name holds that text."
    )
    start = MomentFilter(parameter="start", field_name="at", lookup_expr="gte", label="Then or later, with its offset.")
    end = MomentFilter(parameter="end", field_name="at", lookup_expr="lt", label="Before then, with its offset.")

    class Meta:
        model = AuditEntry
        fields = ("actor", "action", "target_type", "target_id", "target", "start", "end")

    def actor_filter(self, queryset: QuerySet[AuditEntry], name: str, value: str) -> QuerySet[AuditEntry]:
        return queryset.filter(actor=None) if value == SYSTEM else queryset.filter(actor__username=value)
