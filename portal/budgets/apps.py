from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "portal.budgets"
    default_auto_field = "django.db.models.BigAutoField"
