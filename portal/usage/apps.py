from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "portal.usage"
    default_auto_field = "django.db.models.BigAutoField"
