from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    name = "portal.workloads"
    default_auto_field = "django.db.models.BigAutoField"
