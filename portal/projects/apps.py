from django.apps import AppConfig


class ProjectsConfig(AppConfig):
    name = "portal.projects"
    default_auto_field = "django.db.models.BigAutoField"
