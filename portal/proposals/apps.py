from django.apps import AppConfig


class ProposalsConfig(AppConfig):
    name = "portal.proposals"
    default_auto_field = "django.db.models.BigAutoField"
