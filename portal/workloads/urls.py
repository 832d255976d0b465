"""Addresses of hosts in the API."""

from django.urls import path

from portal.workloads.apis import HostDetail, HostList

urlpatterns = [
    path("hosts/", HostList.as_view()),
    path("hosts/<str:name>/", HostDetail.as_view()),
]
