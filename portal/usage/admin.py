"""The ledger, to look at."""

from django.contrib import admin

from portal.common.admin import ReadOnlyAdmin
from portal.usage.models import Segment


@admin.register(Segment)
class SegmentAdmin(ReadOnlyAdmin):
    list_display = ("id", "workload", "host", "gpus", "standing", "start_at", "end_at")
    list_filter = ("standing",)
    list_select_related = ("workload", "host")
    search_fields = ("=workload__id",)
