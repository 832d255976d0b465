"""Addresses of workloads in the API."""

from django.urls import path

from portal.usage.apis.ranges import UsageView
from portal.usage.apis.workloads import WorkloadCancel, WorkloadDetail, WorkloadList, WorkloadLog

urlpatterns = [
    path("usage/", UsageView.as_view()),
    path("workloads/", WorkloadList.as_view()),
    path("workloads/<int:pk>/", WorkloadDetail.as_view()),
    path("workloads/<int:pk>/cancel/", WorkloadCancel.as_view()),
    path("workloads/<int:pk>/logs/", WorkloadLog.as_view()),
]
