"""Requests and proposals, to look at: what changes them goes through services."""

from django.contrib import admin

from portal.common.admin import ReadOnlyAdmin
from portal.proposals.models import Comment, Digest, GrantRequest, Proposal


@admin.register(GrantRequest)
class GrantRequestAdmin(ReadOnlyAdmin):
    list_display = ("title", "project", "cluster", "gpus", "state", "author", "created_at")
    list_filter = ("state", "cluster")
    list_select_related = ("project", "cluster", "author")


@admin.register(Proposal)
class ProposalAdmin(ReadOnlyAdmin):
    list_display = ("title", "parent", "cluster", "state", "author", "base_version", "created_at")
    list_filter = ("state", "cluster")
    list_select_related = ("parent", "cluster", "author")


@admin.register(Comment)
class CommentAdmin(ReadOnlyAdmin):
    list_display = ("proposal", "author", "at")
    list_select_related = ("proposal", "author")


@admin.register(Digest)
class DigestAdmin(ReadOnlyAdmin):
    list_display = ("person", "day", "subject", "sent_at")
    list_select_related = ("person",)
