from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "portal.clusters"
    default_auto_field = "django.db.models.BigAutoField"
