"""Filters of the list of workloads."""

import django_filters
from django.db.models import Q, QuerySet
from rest_framework.exceptions import ValidationError

from portal.clusters.filters import cluster_of_parameter
from portal.common.filters import MomentFilter
from portal.projects.models import Project
from portal.projects.references import project_of_parameter
from portal.workloads.models import Workload, WorkloadState
from portal.workloads.selectors import queue_ordered

ORDERINGS = (("newest", "Newest first"), ("oldest", "Oldest first"), ("queue", "In the order of the queue"))


class WorkloadFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of workloads can be narrowed to."""

    state = django_filters.CharFilter(method="state_filter", label="States, by comma.")
    project = django_filters.CharFilter(method="project_filter", label="That project and all below it: path or id.")
    cluster = django_filters.CharFilter(method="cluster_filter", label="Workloads that accept that cluster.")
    author = django_filters.CharFilter(field_name="author__username", label="The author's user name.")
    name = django_filters.CharFilter(
        lookup_expr="istartswith", label="The name begins with that text, in capitals or not."
    )
    submitted_after = MomentFilter(
        parameter="submitted_after", field_name="submitted_at", lookup_expr="gte", label="Submitted then or later."
    )
    submitted_before = MomentFilter(
        parameter="submitted_before", field_name="submitted_at", lookup_expr="lt", label="Submitted before then."
    )
    ordering = django_filters.ChoiceFilter(choices=ORDERINGS, method="order", label="newest, oldest or queue.")

    class Meta:
        model = Workload
        fields = ("state", "project", "cluster", "author", "name", "submitted_after", "submitted_before", "ordering")

    def state_filter(self, queryset: QuerySet[Workload], name: str, value: str) -> QuerySet[Workload]:
        states = [state.strip() for state in value.split(",")]
        if unknown := [state for state in states if state not in WorkloadState.values]:
            sentence = f"There is no state {unknown[0][:40]!r}; the states are: {', '.join(WorkloadState.values)}."
            raise ValidationError({name: [sentence]}, code="unknown_state")
        return queryset.filter(state__in=states)

    def project_filter(self, queryset: QuerySet[Workload], name: str, value: str) -> QuerySet[Workload]:
        top = project_of_parameter(user=self.request.user, name=name, value=value)
        below = Project.objects.filter(Q(pk=top.pk) | Q(path__startswith=f"{top.path}/"))
        return queryset.filter(project__in=list(below.values_list("pk", flat=True)))

    def cluster_filter(self, queryset: QuerySet[Workload], name: str, value: str) -> QuerySet[Workload]:
        return queryset.filter(clusters=cluster_of_parameter(value))

    def order(self, queryset: QuerySet[Workload], name: str, value: str) -> QuerySet[Workload]:
        if value == "queue":
            return queue_ordered(workloads=queryset)
        return queryset.order_by("pk" if value == "oldest" else "-pk")
