"""Addresses of the pages. Each page's name is also what the navigation at the left looks for."""

from django.urls import path

from portal.dashboard import (
    urls_charts,
    urls_people,
    urls_proposals,
    urls_simulations,
    views_account,
    views_audit,
    views_hosts,
    views_overview,
    views_queue,
    views_search,
    views_submit,
    views_workloads,
)

app_name = "dashboard"
urlpatterns = [
    path("", views_overview.overview, name="overview"),
    path("queue/", views_queue.queue, name="queue"),
    path("submit/", views_submit.submit, name="submit"),
    path("submit/effect/", views_submit.submit_effect, name="submit_effect"),
    path("workloads/", views_workloads.workloads, name="workloads"),
    path("workloads/<int:workload_id>/", views_workloads.workload, name="workload"),
    path("workloads/<int:workload_id>/output/", views_workloads.workload_output, name="workload_output"),
    path("workloads/<int:workload_id>/cancel/", views_workloads.workload_end, name="workload_end"),
    path("hosts/", views_hosts.hosts, name="hosts"),
    path("hosts/<str:name>/", views_hosts.host, name="host"),
    path("hosts/<str:name>/cordon/", views_hosts.host_close, name="host_close"),
    path("hosts/<str:name>/uncordon/", views_hosts.host_open, name="host_open"),
    path("hosts/<str:name>/judge/", views_hosts.host_judge, name="host_judge"),
    path("audit/", views_audit.audit, name="audit"),
    path("search/", views_search.search_page, name="search"),
    path("account/", views_account.account, name="account"),
    path("account/tokens/<int:token_id>/revoke/", views_account.token_end, name="token_end"),
    *urls_charts.urlpatterns,
    *urls_people.urlpatterns,
    *urls_proposals.urlpatterns,
    *urls_simulations.urlpatterns,
]
