"""Addresses of budgets in the API."""

from django.urls import path

from portal.scheduling.apis.budgets import BudgetExport, BudgetList

urlpatterns = [
    path("budgets/", BudgetList.as_view()),
    path("budgets/export/", BudgetExport.as_view()),
]
