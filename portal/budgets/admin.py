"""The history of budgets, to look at. It is append-only, and only the services append."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from portal.budgets.models import BudgetChange, BudgetLine
from portal.common.admin import ReadOnlyAdmin

if TYPE_CHECKING:
    Inline = admin.TabularInline[BudgetLine, BudgetChange]
else:
    Inline = admin.TabularInline


class LineInline(Inline):
    model = BudgetLine
    extra = 0
    can_delete = False

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@admin.register(BudgetChange)
class BudgetChangeAdmin(ReadOnlyAdmin):
    list_display = ("parent", "cluster", "version", "author", "reason", "created_at", "effective_at")
    list_filter = ("cluster",)
    list_select_related = ("parent", "cluster", "author")
    inlines = (LineInline,)
