"""Filters of the list of budgets."""

import django_filters
from django.db.models import Q, QuerySet

from portal.budgets.models import BudgetLine
from portal.clusters.filters import cluster_of_parameter
from portal.projects.references import project_of_parameter


class BudgetFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of budgets can be narrowed to."""

    cluster = django_filters.CharFilter(method="cluster_filter", label="A cluster by its name.")
    project = django_filters.CharFilter(method="project_filter", label="That project and all below it: path or id.")
    parent = django_filters.CharFilter(method="parent_filter", label="The children of that project: path or id.")

    at = django_filters.CharFilter(method="at_keep", label="In force at that moment, with its offset; none: now.")

    class Meta:
        model = BudgetLine
        fields = ("cluster", "project", "parent")

    def at_keep(self, queryset: QuerySet[BudgetLine], name: str, value: str) -> QuerySet[BudgetLine]:
        """The view has chosen the lines of that moment already."""
        return queryset

    def cluster_filter(self, queryset: QuerySet[BudgetLine], name: str, value: str) -> QuerySet[BudgetLine]:
        return queryset.filter(change__cluster=cluster_of_parameter(value))

    def project_filter(self, queryset: QuerySet[BudgetLine], name: str, value: str) -> QuerySet[BudgetLine]:
        top = project_of_parameter(user=self.request.user, name=name, value=value)
        return queryset.filter(Q(project=top) | Q(project__path__startswith=f"{top.path}/"))

    def parent_filter(self, queryset: QuerySet[BudgetLine], name: str, value: str) -> QuerySet[BudgetLine]:
        return queryset.filter(change__parent=project_of_parameter(user=self.request.user, name=name, value=value))
