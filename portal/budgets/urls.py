"""Addresses of budget changes in the API."""

from django.urls import path

from portal.budgets.apis import BudgetChangeDetail, BudgetChangeList, BudgetChangeUndo, BudgetImport

urlpatterns = [
    path("budget-changes/", BudgetChangeList.as_view()),
    path("budget-changes/<int:pk>/", BudgetChangeDetail.as_view()),
    path("budget-changes/<int:pk>/undo/", BudgetChangeUndo.as_view()),
    path("budgets/import/", BudgetImport.as_view()),
]
