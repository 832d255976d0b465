"""The audit log: every change of state, by whom, from what, to what. Append-only."""

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    """One change. `before` and `after` hold the changed fields only; secrets are never among them."""

    at = models.DateTimeField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    target_type = models.CharField(max_length=40)
    target_id = models.BigIntegerField()
    target_name = models.CharField(max_length=300)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=["-at", "-id"], name="audit_newest"),
            models.Index(fields=["target_type", "target_id", "-at"], name="audit_target"),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.target_type} {self.target_name}"
