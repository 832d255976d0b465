"""Every address of the portal."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("", include("portal.dashboard.urls")),
]

handler400 = "portal.dashboard.views_errors.bad_request"
handler403 = "portal.dashboard.views_errors.permission_denied"
handler404 = "portal.dashboard.views_errors.page_not_found"
handler500 = "portal.dashboard.views_errors.server_error"
