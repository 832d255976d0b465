"""Addresses of the pages of simulations."""

from django.urls import path, re_path

from portal.dashboard import views_simulations, views_simulations_new

urlpatterns = [
    path("simulations/", views_simulations.simulations, name="simulations"),
    path("simulations/new/", views_simulations_new.simulation_new, name="simulation_new"),
    path("simulations/compare/", views_simulations.simulations_compare, name="simulations_compare"),
    path("simulations/<int:run_id>/", views_simulations.simulation, name="simulation"),
    path("simulations/<int:run_id>/cancel/", views_simulations.simulation_cancel, name="simulation_cancel"),
    re_path(
        r"^simulations/(?P<run_id>[0-9]{1,18})/(?P<what>report|scenario|days)/$",
        views_simulations.simulation_download,
        name="simulation_download",
    ),
]
