from django.apps import AppConfig


class SimulationsConfig(AppConfig):
    name = "portal.simulations"
    default_auto_field = "django.db.models.BigAutoField"
