"""Addresses of the pages about GPU-time: projects, budgets, queue wait, pyramid; and of plotly.js."""

from django.urls import path

from portal.dashboard import (
    views_assets,
    views_budgets,
    views_budgets_changes,
    views_budgets_import,
    views_budgets_level,
    views_matrix,
    views_project,
    views_pyramid,
    views_waits,
)

urlpatterns = [
    path("assets/plotly-<str:version>.min.js", views_assets.plotly, name="plotly"),
    path("projects/", views_matrix.projects, name="projects"),
    path("projects/<path:path>/", views_project.project, name="project"),
    path("budgets/", views_budgets.budgets, name="budgets"),
    # No slug of a project has a tilde.
    path("budgets/~export/", views_budgets.export, name="budgets_export"),
    path("budgets/~import/", views_budgets_import.budgets_file, name="budgets_import"),
    path("budgets/~changes/<int:change_id>/", views_budgets_changes.change, name="budgets_change"),
    path("budgets/~history/<path:path>/", views_budgets_changes.history, name="budgets_history"),
    path("budgets/<path:path>/", views_budgets_level.level, name="budgets_level"),
    path("queue-wait/", views_waits.waits, name="waits"),
    path("pyramid/", views_pyramid.pyramid_page, name="pyramid"),
]
