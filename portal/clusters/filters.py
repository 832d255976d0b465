"""Filters of the lists of clusters and hosts."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError

from portal.clusters.models import Cluster, Host, HostState
from portal.clusters.selectors import cluster_by_name
from portal.common.errors import NotFound


class ClusterNameFilter(django_filters.CharFilter):  # type: ignore[misc]
    """A cluster by its name; a wrong one is refused with those that there are."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return super().filter(qs, cluster_of_parameter(value)) if value else qs


class ClusterFilter(django_filters.FilterSet):  # type: ignore[misc]
    """`name` is exact."""

    name = django_filters.CharFilter(label="The cluster's name.")

    class Meta:
        model = Cluster
        fields = ("name",)


class HostFilter(django_filters.FilterSet):  # type: ignore[misc]
    """`state` may be given several times."""

    cluster = ClusterNameFilter(label="A cluster by its name.")
    name = django_filters.CharFilter(lookup_expr="icontains", label="The name holds that text.")
    state = django_filters.MultipleChoiceFilter(choices=HostState.choices, label="A state; again for more.")
    simulated = django_filters.BooleanFilter(label="Whether its GPUs are simulated.")

    class Meta:
        model = Host
        fields = ("cluster", "name", "state", "simulated")


def cluster_of_parameter(value: str) -> Cluster:
    """The cluster that a parameter of the query string names."""
    try:
        return cluster_by_name(name=value)
    except NotFound as error:
        raise ValidationError({"cluster": [error.detail]}, code="unknown_cluster") from None
