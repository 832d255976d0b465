"""Filters of the list of budget changes."""

import django_filters
from django.db.models import QuerySet

from portal.budgets.history import changes_in_levels_of
from portal.budgets.models import BudgetChange
from portal.clusters.filters import ClusterNameFilter
from portal.common.filters import MomentFilter
from portal.projects.references import project_of_parameter


class BudgetChangeFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of changes can be narrowed to."""

    cluster = ClusterNameFilter(label="A cluster by its name.")
    parent = django_filters.CharFilter(method="parent_filter", label="The level below that project: path or id.")
    project = django_filters.CharFilter(method="project_filter", label="The levels that project was in: path or id.")
    author = django_filters.CharFilter(field_name="author__username", label="Who made it, by user name.")
    created_after = MomentFilter(
        field_name="created_at", lookup_expr="gte", parameter="created_after", label="Made then or later."
    )
    created_before = MomentFilter(
        field_name="created_at", lookup_expr="lt", parameter="created_before", label="Made before that."
    )
    effective_after = MomentFilter(
        field_name="effective_at", lookup_expr="gte", parameter="effective_after", label="Takes effect then or later."
    )
    effective_before = MomentFilter(
        field_name="effective_at", lookup_expr="lt", parameter="effective_before", label="Takes effect before that."
    )

    class Meta:
        model = BudgetChange
        fields = ("cluster", "parent", "project", "author")

    def parent_filter(self, queryset: QuerySet[BudgetChange], name: str, value: str) -> QuerySet[BudgetChange]:
        return queryset.filter(parent=project_of_parameter(user=self.request.user, name=name, value=value))

    def project_filter(self, queryset: QuerySet[BudgetChange], name: str, value: str) -> QuerySet[BudgetChange]:
        project = project_of_parameter(user=self.request.user, name=name, value=value)
        return changes_in_levels_of(changes=queryset, project=project)
