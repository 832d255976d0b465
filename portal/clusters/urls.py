"""Addresses of clusters in the API."""

from django.urls import path

from portal.clusters.apis import ClusterDetail, ClusterList

urlpatterns = [
    path("clusters/", ClusterList.as_view()),
    path("clusters/<str:name>/", ClusterDetail.as_view()),
]
