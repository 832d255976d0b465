"""Query counts of the pages, pinned, and the same however many rows there are."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.dashboard.scene import client_of
from tests.factories import attempt_make, host_make, workload_make

PINNED = {
    "overview": 34,  # the pyramid of two ranges, where the ledger begins, who waited longest, which hosts are closed
    "queue": 7,
    "submit": 13,  # with what the rules would refuse
    "workloads": 7,
    "workload": 13,
    "hosts": 7,
    "host": 8,
    "account": 5,
    "audit": 7,
    "search": 3,
}


def queries_of(client, url):
    client.get(url)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def url_of(scene, name):
    arguments = {"workload": [scene.running.pk], "host": [scene.host.name]}.get(name, [])
    return reverse(f"dashboard:{name}", args=arguments)


@pytest.mark.parametrize("name", PINNED)
def test_a_page_asks_the_database_as_often_as_pinned(scene, name):
    client = client_of(scene.admin)
    for _ in range(12):
        workload_make(project=scene.nlp, cluster=scene.cluster, author=scene.member)
        host = host_make(cluster=scene.cluster)
        attempt_make(workload=workload_make(project=scene.nlp, cluster=scene.cluster), hosts=[host])
    assert queries_of(client, url_of(scene, name)) == PINNED[name]
