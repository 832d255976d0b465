"""/metrics, as Prometheus reads it."""

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from portal.scheduling.models import Pass
from tests.api.support import Lab
from tests.factories import START, attempt_make, host_make, segment_make, workload_make


def samples_of(client: Client) -> dict[tuple[str, ...], float]:
    """Every sample by its name and its labels' values."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(response.content.decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_metrics_show_workloads_gpus_hosts_and_the_last_pass(client: Client, lab: Lab) -> None:
    workload_make(project=lab.nlp, cluster=lab.cluster, replicas=2, gpus_per_replica=4)
    running = workload_make(project=lab.nlp, cluster=lab.cluster, gpus_per_replica=2)
    segment_make(attempt=attempt_make(workload=running, hosts=[lab.host]), host=lab.host, start_at=START, gpus=2)
    host_make(cluster=lab.cluster, gpus=8, state="cordoned")
    Pass.objects.create(cluster=lab.cluster, now_at=START, error="before")
    Pass.objects.create(cluster=lab.cluster, now_at=timezone.now(), snapshot_ms=100, decide_ms=20, apply_ms=5)
    samples = samples_of(client)
    assert samples["commons_workloads", "pending"] == 1
    assert samples["commons_workloads", "failed"] == 0
    assert samples[("commons_pending_gpus",)] == 8
    assert samples["commons_occupied_gpus", "local", "funded"] == 2
    assert samples["commons_occupancy_ratio", "local"] == 0.25
    assert samples["commons_hosts", "local", "cordoned"] == 1
    assert samples["commons_installed_gpus", "local", "schedulable"] == 8
    assert samples["commons_pass_duration_seconds", "local"] == 0.125
    assert samples["commons_pass_failed", "local"] == 0
    assert 0 <= samples["commons_pass_age_seconds", "local"] < 60


def test_metrics_name_no_person(client: Client, lab: Lab) -> None:
    workload_make(project=lab.nlp, cluster=lab.cluster, author=lab.member)
    assert "mia" not in client.get("/metrics").content.decode()


def test_metrics_take_seven_queries(client: Client, lab: Lab) -> None:
    Pass.objects.create(cluster=lab.cluster, now_at=START)
    with CaptureQueriesContext(connection) as captured:
        samples_of(client)
    assert len(captured) == 7
