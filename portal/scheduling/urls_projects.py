"""Addresses of what is done to projects. They stand before those of projects, whose path would swallow them."""

from django.urls import path

from portal.scheduling.apis.projects import ProjectArchive, ProjectMove, ProjectUnarchive

urlpatterns = [
    path("projects/<path:reference>/move/", ProjectMove.as_view()),
    path("projects/<path:reference>/archive/", ProjectArchive.as_view()),
    path("projects/<path:reference>/unarchive/", ProjectUnarchive.as_view()),
]
