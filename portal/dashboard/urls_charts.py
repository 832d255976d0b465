"""Addresses of the pages about GPU-time: projects, budgets, queue wait, pyramid; and of plotly.js."""

from django.urls import path

from portal.dashboard import views_assets, views_budgets, views_matrix, views_project, views_pyramid, views_waits

urlpatterns = [
    path("assets/plotly-<str:version>.min.js", views_assets.plotly, name="plotly"),
    path("projects/", views_matrix.projects, name="projects"),
    path("projects/<path:path>/", views_project.project, name="project"),
    path("budgets/", views_budgets.budgets, name="budgets"),
    path("budgets/<path:path>/", views_budgets.level, name="budgets_level"),
    path("queue-wait/", views_waits.waits, name="waits"),
    path("pyramid/", views_pyramid.pyramid_page, name="pyramid"),
]
