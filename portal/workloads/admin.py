"""Workloads, attempts and their timeline, to look at."""

from django.contrib import admin

from portal.common.admin import ReadOnlyAdmin
from portal.workloads.models import Attempt, Workload, WorkloadEvent


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "project", "author", "replicas", "gpus_per_replica", "state", "submitted_at")
    list_filter = ("state", "is_demonstration")
    list_select_related = ("project", "author")
    search_fields = ("=id", "name")
    exclude = ("environment", "idempotency_digest")  # people put secrets into environments


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("id", "workload", "number", "cluster", "state", "standing", "assigned_at", "ended_at", "outcome")
    list_filter = ("state", "standing", "outcome")
    list_select_related = ("workload", "cluster")
    search_fields = ("=workload__id",)


@admin.register(WorkloadEvent)
class WorkloadEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "workload", "kind", "actor", "text")
    list_filter = ("kind",)
    list_select_related = ("workload", "actor")
    search_fields = ("=workload__id",)
