"""Filters of the list of projects."""

import django_filters
from django.db.models import Q, QuerySet

from portal.projects.models import Project
from portal.projects.references import project_of_parameter


class ProjectFilter(django_filters.FilterSet):  # type: ignore[misc]
    """`under=lab/nlp`: that project and all below it; `parent=lab`: its children; `name` holds that text."""

    under = django_filters.CharFilter(method="under_filter", label="That project and all below it: path or id.")
    parent = django_filters.CharFilter(method="parent_filter", label="The children of that project: path or id.")
    name = django_filters.CharFilter(lookup_expr="icontains", label="The name holds that text.")

    class Meta:
        model = Project
        fields = ("under", "parent", "name")

    def under_filter(self, queryset: QuerySet[Project], name: str, value: str) -> QuerySet[Project]:
        top = project_of_parameter(user=self.request.user, name=name, value=value)
        return queryset.filter(Q(pk=top.pk) | Q(path__startswith=f"{top.path}/"))

    def parent_filter(self, queryset: QuerySet[Project], name: str, value: str) -> QuerySet[Project]:
        return queryset.filter(parent=project_of_parameter(user=self.request.user, name=name, value=value))
