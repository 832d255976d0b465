"""Addresses of budgets in the API."""

from django.urls import path

from portal.scheduling.apis import BudgetList

urlpatterns = [
    path("budgets/", BudgetList.as_view()),
]
