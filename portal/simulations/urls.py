"""Addresses of simulations in the API."""

from django.urls import path

from portal.simulations.apis import RunCancel, RunDays, RunDetail, RunList, TraceUpload

urlpatterns = [
    path("simulations/", RunList.as_view()),
    path("simulations/<int:pk>/", RunDetail.as_view()),
    path("simulations/<int:pk>/cancel/", RunCancel.as_view()),
    path("simulations/<int:pk>/days/", RunDays.as_view()),
    path("simulation-traces/", TraceUpload.as_view()),
]
