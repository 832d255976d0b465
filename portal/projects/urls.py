"""Addresses of projects and people in the API."""

from django.urls import path

from portal.projects.apis import ProjectDetail, ProjectList, WhoAmI

urlpatterns = [
    path("projects/", ProjectList.as_view()),
    path("projects/<path:reference>/", ProjectDetail.as_view()),
    path("whoami/", WhoAmI.as_view()),
]
