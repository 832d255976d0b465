"""Filters of the lists of requests and proposals."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet
from rest_framework.exceptions import ValidationError

from portal.clusters.filters import ClusterNameFilter
from portal.projects.references import project_of_parameter
from portal.proposals.models import GrantRequest, Proposal, ProposalState, RequestState


def states_filter(queryset: QuerySet[Any], name: str, value: str, known: list[str]) -> QuerySet[Any]:
    """Rows in one of the states given by comma; an unknown one is refused with those that there are."""
    states = [state.strip() for state in value.split(",")]
    if unknown := [state for state in states if state not in known]:
        sentence = f"There is no state {unknown[0][:40]!r}; the states are: {', '.join(known)}."
        raise ValidationError({name: [sentence]}, code="unknown_state")
    return queryset.filter(state__in=states)


class RequestFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of requests can be narrowed to."""

    state = django_filters.CharFilter(method="state_filter", label="States, by comma.")
    project = django_filters.CharFilter(method="project_filter", label="That project and all below it: path or id.")
    cluster = ClusterNameFilter(label="A cluster by its name.")
    author = django_filters.CharFilter(field_name="author__username", label="Who asks, by user name.")

    class Meta:
        model = GrantRequest
        fields = ("state", "project", "cluster", "author")

    def state_filter(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return states_filter(queryset, name, value, RequestState.values)

    def project_filter(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        top = project_of_parameter(user=self.request.user, name=name, value=value)
        return queryset.filter(Q(project=top) | Q(project__path__startswith=f"{top.path}/"))


class ProposalFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of proposals can be narrowed to."""

    state = django_filters.CharFilter(method="state_filter", label="States, by comma.")
    parent = django_filters.CharFilter(method="parent_filter", label="The level below that project: path or id.")
    cluster = ClusterNameFilter(label="A cluster by its name.")
    author = django_filters.CharFilter(field_name="author__username", label="Who wrote it, by user name.")

    class Meta:
        model = Proposal
        fields = ("state", "parent", "cluster", "author")

    def state_filter(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return states_filter(queryset, name, value, ProposalState.values)

    def parent_filter(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(parent=project_of_parameter(user=self.request.user, name=name, value=value))
