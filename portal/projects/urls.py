"""Addresses of projects, people and the audit log in the API."""

from django.urls import path

from portal.projects.apis.audit import AuditExport, AuditList
from portal.projects.apis.people import InvitationList, InvitationRevoke, MembershipDetail, MembershipList
from portal.projects.apis.projects import ProjectDetail, ProjectList, WhoAmI

urlpatterns = [
    path("projects/", ProjectList.as_view()),
    path("projects/<path:reference>/", ProjectDetail.as_view()),
    path("memberships/", MembershipList.as_view()),
    path("memberships/<int:pk>/", MembershipDetail.as_view()),
    path("invitations/", InvitationList.as_view()),
    path("invitations/<int:pk>/revoke/", InvitationRevoke.as_view()),
    path("audit/", AuditList.as_view()),
    path("audit/export/", AuditExport.as_view()),
    path("whoami/", WhoAmI.as_view()),
]
