"""REST: budgets with their balances."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from portal.budgets.models import BudgetLine
from portal.common.apis import Rows, RowsView, person
from portal.common.units import whole_second
from portal.scheduling.budget_rows import LINE_FIELDS, budget_lines_visible, budget_rows
from portal.scheduling.filters import BudgetFilter
from portal.scheduling.serializers import BudgetSerializer


class BudgetList(RowsView):
    """Budgets in force now, of projects that you may see, by cluster and path."""

    queryset = BudgetLine.objects.all()
    serializer_class = BudgetSerializer
    filterset_class = BudgetFilter
    fields = LINE_FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        lines: QuerySet[Any] = budget_lines_visible(user=person(self.request), at=whole_second(timezone.now()))
        return lines.order_by("change__cluster__name", "project__path")

    def rows(self, page: Any) -> Rows:
        return budget_rows(page=page, at=whole_second(timezone.now()))
