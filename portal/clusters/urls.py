"""Addresses of clusters in the API."""

from django.urls import path

from portal.clusters.apis import ClusterDetail, ClusterList, ClusterPause, ClusterPolicy, ClusterResume

urlpatterns = [
    path("clusters/", ClusterList.as_view()),
    path("clusters/<str:name>/", ClusterDetail.as_view()),
    path("clusters/<str:name>/pause/", ClusterPause.as_view()),
    path("clusters/<str:name>/resume/", ClusterResume.as_view()),
    path("clusters/<str:name>/policy/", ClusterPolicy.as_view()),
]
