"""Every address of the portal."""

from django.contrib import admin
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from portal.common.apis import UnknownAddress
from portal.common.health import healthz, readyz
from portal.scheduling.views import metrics

api_v1 = [
    path("", include("portal.scheduling.urls_projects")),
    path("", include("portal.projects.urls")),
    path("", include("portal.clusters.urls")),
    path("", include("portal.budgets.urls")),
    path("", include("portal.workloads.urls")),
    path("", include("portal.usage.urls")),
    path("", include("portal.scheduling.urls")),
    path("", include("portal.simulations.urls")),
    path("", include("portal.proposals.urls")),
]

urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("api/v1/", include(api_v1)),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(), name="api-docs"),
    re_path(r"^api/", UnknownAddress.as_view()),
    path("", include("portal.dashboard.urls")),
]

handler400 = "portal.dashboard.views_errors.bad_request"
handler403 = "portal.dashboard.views_errors.permission_denied"
handler404 = "portal.dashboard.views_errors.page_not_found"
handler500 = "portal.dashboard.views_errors.server_error"
