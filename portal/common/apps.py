from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "portal.common"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal import celery, checks  # noqa: F401 - Celery and the checks register themselves once Django is up
