"""Simulations, to look at."""

from django.contrib import admin

from portal.common.admin import ReadOnlyAdmin
from portal.simulations.models import Comparison, Run, UploadedTrace


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("title", "state", "source", "cluster", "author", "created_at", "tries")
    list_filter = ("state", "source")
    list_select_related = ("cluster", "author")


@admin.register(UploadedTrace)
class UploadedTraceAdmin(ReadOnlyAdmin):
    list_display = ("name", "author", "created_at", "size_bytes")
    list_select_related = ("author",)
    exclude = ("content",)


@admin.register(Comparison)
class ComparisonAdmin(ReadOnlyAdmin):
    list_display = ("title", "cluster", "author", "created_at")
    list_select_related = ("cluster", "author")
    raw_id_fields = ("today", "draft")
