"""Clusters, policies and hosts, to look at. Pages and services change them."""

from django.contrib import admin

from portal.clusters.models import Cluster, Host, HostEvent, HostSpan, PolicyChange
from portal.common.admin import ReadOnlyAdmin


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin):
    list_display = ("name", "engine", "paused_at", "created_at")


@admin.register(PolicyChange)
class PolicyChangeAdmin(ReadOnlyAdmin):
    list_display = ("cluster", "version", "author", "reason", "created_at")
    list_filter = ("cluster",)
    list_select_related = ("cluster", "author")


@admin.register(Host)
class HostAdmin(ReadOnlyAdmin):
    list_display = ("name", "cluster", "gpus", "gpu_model", "simulated", "state", "state_cause", "last_heard_at")
    list_filter = ("cluster", "state", "simulated")
    list_select_related = ("cluster",)
    search_fields = ("name",)
    exclude = ("public_key",)


@admin.register(HostSpan)
class HostSpanAdmin(ReadOnlyAdmin):
    list_display = ("host", "state", "cause", "gpus", "start_at", "end_at")
    list_filter = ("state",)
    list_select_related = ("host",)


@admin.register(HostEvent)
class HostEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "host", "kind", "detail", "actor")
    list_filter = ("kind",)
    list_select_related = ("host", "actor")
