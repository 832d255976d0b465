"""People can be edited here; projects, roles and tokens are only shown: services change them."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone

from portal.common.admin import ReadOnlyAdmin
from portal.common.services import audit_record
from portal.projects.models import ApiToken, FormerPath, Invitation, Membership, Project, User

if TYPE_CHECKING:
    Base = UserAdmin[User]
else:
    Base = UserAdmin


@admin.register(User)
class PersonAdmin(Base):
    """Nobody is deleted: what they did stays theirs. Set `active` to off instead."""

    list_display = ("username", "email", "is_active", "is_operator", "is_superuser", "last_login")
    list_filter = ("is_active", "is_operator", "is_superuser")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "is_operator", "is_superuser", "is_staff")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save, and say in the audit log what changed; passwords are never in it."""
        fields = [name for name in form.changed_data if "password" not in name]
        kept = User.objects.filter(pk=obj.pk).values(*fields).first() if change and fields else None
        super().save_model(request, obj, form, change)
        audit_record(
            actor=request.user,
            action="user_change" if change else "user_create",
            target=obj,
            before={name: str(value) for name, value in (kept or {}).items()},
            after={name: str(getattr(obj, name)) for name in fields if hasattr(obj, name)},
            now=timezone.now(),
        )


@admin.register(Project)
class ProjectAdmin(ReadOnlyAdmin):
    list_display = ("path", "name", "is_demonstration", "archived_at", "created_at")
    search_fields = ("path", "name")


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ("user", "project", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("user", "project")
    search_fields = ("user__username", "project__path")


@admin.register(FormerPath)
class FormerPathAdmin(ReadOnlyAdmin):
    list_display = ("path", "project", "left_at")
    list_select_related = ("project",)
    search_fields = ("path", "project__path")


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    list_display = ("label", "project", "role", "invited_by", "created_at", "expires_at", "accepted_by", "revoked_at")
    list_select_related = ("project", "invited_by", "accepted_by")
    search_fields = ("label", "project__path")
    exclude = ("digest",)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ("prefix", "user", "name", "scope", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("user",)
    exclude = ("digest",)
