"""Filters of the list of simulations."""

import django_filters

from portal.clusters.filters import ClusterNameFilter
from portal.simulations.models import Run, RunState, Source


class RunFilter(django_filters.FilterSet):  # type: ignore[misc]
    """`state` may be given several times."""

    state = django_filters.MultipleChoiceFilter(choices=RunState.choices, label="A state; again for more.")
    source = django_filters.ChoiceFilter(choices=Source.choices, label="history, trace or generator.")
    cluster = ClusterNameFilter(label="A cluster by its name.")
    author = django_filters.CharFilter(field_name="author__username", label="The author's user name.")

    class Meta:
        model = Run
        fields = ("state", "source", "cluster", "author")
