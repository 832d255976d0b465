"""The project pages, queue wait and pyramid: from the real ledger, with the budgets then in force."""

import csv
import io
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.common.units import whole_second
from portal.dashboard.views_assets import PLOTLY_VERSION
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    user_make,
    without_tokens,
    workload_make,
)

pytestmark = pytest.mark.django_db

HOUR = 3600
DAY = {"from": "2026-11-02T00:00:00+00:00", "to": "2026-11-03T00:00:00+00:00"}


@pytest.fixture
def cluster():
    return cluster_make("local")


@pytest.fixture
def host(cluster):
    return host_make(cluster=cluster, gpus=8)


@pytest.fixture
def lead(client, cluster):
    user = user_make(role="lead", project=project_make("lab"))
    client.force_login(user)
    return user


def ran(project, host, start, seconds, *, gpus=2, standing="funded", wait=10, **fields):
    """A workload of the project that ran so long, with its attempt and its segment."""
    end = after(start + seconds)
    workload = workload_make(
        project=project,
        cluster=host.cluster,
        gpus_per_replica=gpus,
        submitted_at=after(start - wait),
        state="succeeded",
        ended_at=end,
        min_runtime_seconds=fields.pop("min_runtime_seconds", 300),
    )
    attempt = attempt_make(
        workload=workload,
        hosts=[host],
        state="ended",
        outcome="succeeded",
        claim=False,
        ended_at=end,
        decided_at=after(start),
        running_at=after(start),
    )
    segment_make(attempt=attempt, host=host, gpus=gpus, standing=standing, start_at=after(start), end_at=end)
    return workload


def address(path="lab/nlp"):
    return reverse("dashboard:project", args=[path])


def csv_rows(response):
    text = b"".join(response.streaming_content).decode()
    assert text.startswith("\ufeff")
    return list(csv.DictReader(io.StringIO(text[1:])))


def test_a_project_without_a_budget_says_so_and_never_shows_a_number_that_is_none(client, lead, host):
    ran(project_make("lab/guests"), host, HOUR, HOUR, standing="unallocated", min_runtime_seconds=0)
    response = client.get(address("lab/guests"), DAY)
    assert response.status_code == 200
    assert "no budget" in response.text
    for words in ("NaN", "nan ", "Infinity", "100 % of its allotment"):
        assert words not in without_tokens(response.text)
    rows = csv_rows(client.get(address("lab/guests"), DAY | {"csv": "use"}))
    assert sum(int(row["unallocated (GPU-seconds)"]) for row in rows) == 2 * HOUR
    assert "allotted (GPU-seconds)" not in rows[0]


def test_use_is_the_ledger_and_the_allotment_the_budgets_then_in_force(client, lead, cluster, host):
    lab = project_make("lab")
    nlp = project_make("lab/nlp")
    budget_make(cluster=cluster, parent=lab, percent={"nlp": 50}, at=START)
    budget_make(cluster=cluster, parent=lab, percent={"nlp": 25}, at=after(12 * HOUR))
    ran(nlp, host, HOUR, 2 * HOUR, gpus=4)
    response = client.get(address(), DAY)
    use = response.context["use"]
    assert use.charged_gpu_seconds == 4 * 2 * HOUR
    assert use.allotted_gpu_seconds == 12 * HOUR * 4 + 12 * HOUR * 2
    assert "50 % of lab until 2 Nov 2026 12:00, then 25 %" in use.chart.subtitle
    rows = csv_rows(client.get(address(), DAY | {"csv": "use"}))
    assert sum(int(row["funded (GPU-seconds)"]) for row in rows) == use.charged_gpu_seconds
    assert sum(int(row["allotted (GPU-seconds)"]) for row in rows) == use.allotted_gpu_seconds


def test_a_childs_budget_is_a_part_of_its_parents_at_each_moment(client, lead, cluster, host):
    project_make("lab/nlp/eval")
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 50}, at=START)
    budget_make(cluster=cluster, parent=project_make("lab/nlp"), percent={"eval": 50}, at=after(12 * HOUR))
    use = client.get(address("lab/nlp/eval"), DAY).context["use"]
    assert use.allotted_gpu_seconds == 12 * HOUR * 2


def test_a_subtree_counts_for_those_above_it(client, lead, cluster, host):
    budget_make(cluster=cluster, parent=project_make("lab"), percent={}, at=START)
    ran(project_make("lab/nlp/eval"), host, HOUR, HOUR)
    assert client.get(address("lab/nlp"), DAY).context["use"].charged_gpu_seconds == 2 * HOUR
    assert client.get(address("lab"), DAY).context["use"].charged_gpu_seconds == 2 * HOUR


def test_owed_delivered_waits_and_people_stand_on_the_page(client, lead, cluster, host):
    nlp = project_make("lab/nlp")
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 50}, at=START)
    workload = ran(nlp, host, HOUR, HOUR, wait=120)
    response = client.get(address(), DAY)
    delivery = response.context["delivery"]
    assert (delivery.owed_gpu_seconds, delivery.delivered_gpu_seconds) == (2 * HOUR + 2 * 120, 2 * HOUR)
    assert [row[2].raw for row in response.context["owed"].table.rows if row[2].raw] == [2 * 120, 2 * HOUR]
    assert response.context["waits"].p50_seconds == 120
    (person,) = response.context["people"]
    assert (person.username, person.charged_gpu_seconds, person.workloads) == (workload.author.username, 2 * HOUR, 1)


def test_only_projects_that_one_may_see_are_listed_and_open(client, cluster, host):
    client.force_login(user_make(role="member", project=project_make("lab/nlp")))
    project_make("lab/secret")
    assert client.get(address("lab/nlp")).status_code == 200
    assert client.get(address("lab/secret")).status_code == 404
    assert client.get(address("lab")).status_code == 404
    assert "secret" not in client.get(reverse("dashboard:projects")).text
    assert "secret" not in client.get(reverse("dashboard:waits")).text


def test_a_project_that_one_may_not_see_is_no_filter_of_waits(client, cluster, host):
    client.force_login(user_make(role="member", project=project_make("lab/nlp")))
    project_make("lab/secret")
    assert client.get(reverse("dashboard:waits"), {"project": "lab/secret"}).status_code == 404


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"range": "8d"}, "range"),
        ({"from": "2026-13-40", "to": "2026-11-03"}, "from"),
        ({"from": "2026-11-03", "to": "2026-11-01"}, "to"),
        ({"from": "2026-11-01", "to": "soon"}, "to"),
        ({"to": "2026-11-01"}, "from"),
        ({"from": "0001-01-01", "to": "9999-12-31"}, "to"),
        ({"from": "1990-01-01"}, "from"),
        ({"cluster": "nowhere"}, "cluster"),
    ],
)
@pytest.mark.parametrize("page", ["pyramid", "waits", "projects"])
def test_a_range_that_can_not_be_is_refused_by_name(client, lead, host, query, name, page):
    target = address("lab") if page == "projects" else reverse(f"dashboard:{page}")
    response = client.get(target, query)
    assert response.status_code == 400
    assert name in response.text


def test_three_years_are_exported_line_by_line(client, lead, host):
    ran(project_make("lab/nlp"), host, HOUR, HOUR)
    response = client.get(address("lab"), {"from": "2024-01-01", "to": "2026-12-31", "csv": "use"})
    assert response.streaming
    rows = csv_rows(response)
    assert sum(int(row["all (GPU-seconds)"]) for row in rows) == 2 * HOUR


def test_the_link_of_a_chart_shows_the_same_again(client, lead, host):
    ran(project_make("lab/nlp"), host, HOUR, HOUR)
    first = client.get(address(), DAY).context["use"].chart
    again = client.get(first.address).context["use"].chart
    assert again.payload == first.payload


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "Europe/Berlin"])
def test_a_date_is_the_sites_local_day_also_over_a_clock_change(client, lead, host, settings, zone):
    settings.SITE_ZONE = zone
    span = client.get(reverse("dashboard:pyramid"), {"from": "2026-10-25", "to": "2026-10-25"}).context["span"]
    hours = {"Asia/Shanghai": 24, "Europe/Berlin": 25}[zone]
    assert span.end_at - span.start_at == timedelta(hours=hours)
    assert span.words == "25 Oct 2026 00:00 to 26 Oct 2026 00:00"


def test_a_name_that_looks_like_a_formula_does_not_run_in_the_csv(client, lead, cluster, host):
    project_make("lab/x", name='=HYPERLINK("http://x")')
    rows = csv_rows(client.get(reverse("dashboard:projects"), {"csv": "projects"}))
    assert rows[1]["name"] == '\'=HYPERLINK("http://x")'


def test_a_csv_that_is_not_there_is_refused_with_those_that_are(client, lead, host):
    response = client.get(address("lab"), {"csv": "nothing"})
    assert response.status_code == 404
    assert "use, delivery, balance, waits, people, children" in response.text


def test_waits_are_by_class_with_restarts_apart(client, lead, cluster, host):
    nlp = project_make("lab/nlp")
    first = ran(nlp, host, HOUR, 60, wait=30)
    attempt_make(
        workload=first,
        hosts=[host],
        state="ended",
        outcome="succeeded",
        claim=False,
        ended_at=after(3 * HOUR),
        queued_at=after(2 * HOUR),
        decided_at=after(2 * HOUR + 500),
        running_at=after(2 * HOUR + 500),
    )
    charts = client.get(reverse("dashboard:waits"), DAY).context["charts"]
    assert [(row[0].text, row[2].raw) for row in charts["first"].table.rows] == [("debug", 30)]
    assert [(row[0].text, row[2].raw) for row in charts["again"].table.rows] == [("debug", 500)]
    assert [row[0].text for row in charts["by_project"].table.rows] == ["lab/nlp"]


def test_the_pyramid_adds_up_and_utilization_is_a_dash_with_its_reason(client, lead, cluster):
    host = host_make(cluster=cluster, gpus=8, simulated=True)
    ran(project_make("lab/nlp"), host, HOUR, HOUR, gpus=8)
    response = client.get(reverse("dashboard:pyramid"), DAY)
    rows = {row[0].text: row[2] for row in response.context["waterfall"].table.rows}
    assert rows["installed"].raw == 8 * 24 * HOUR
    assert rows["schedulable"].raw - rows["held"].raw - rows["idle"].raw == rows["occupied"].raw == 8 * HOUR
    assert rows["allocated"].raw == 8 * HOUR
    assert rows["useful"].text.startswith("– The GPUs of this cluster are simulated")
    utilization = response.context["ratios"][3]
    assert (utilization.name, utilization.value) == ("Utilization", "–")


def test_a_cluster_on_which_nothing_ever_ran_is_drawn_empty(client, lead, cluster):
    for page in ("pyramid", "waits", "projects", "budgets"):
        assert client.get(reverse(f"dashboard:{page}")).status_code == 200
    assert "No GPU was installed" in client.get(reverse("dashboard:pyramid")).text


@pytest.mark.parametrize("page", ["projects", "budgets", "waits", "pyramid"])
def test_a_page_is_for_people_who_signed_in_and_changes_nothing(client, page):
    assert client.get(reverse(f"dashboard:{page}")).status_code == 302
    client.force_login(user_make())
    assert client.post(reverse(f"dashboard:{page}")).status_code == 405


def test_plotly_is_served_whole_compressed_and_for_good(client):
    target = reverse("dashboard:plotly", args=[PLOTLY_VERSION])
    response = client.get(target, headers={"accept-encoding": "gzip"})
    assert response["Content-Encoding"] == "gzip"
    assert "immutable" in response["Cache-Control"]
    assert len(response.content) < 1_700_000
    assert client.get(reverse("dashboard:plotly", args=["0.0.0"])).status_code == 404


QUERIES = {"project": 38, "projects": 9, "waits": 7, "pyramid": 19}


@pytest.mark.parametrize("page", QUERIES)
def test_a_page_takes_a_fixed_number_of_queries(client, lead, cluster, host, django_assert_num_queries, page):
    budget_make(cluster=cluster, parent=project_make("lab"), percent={}, at=START)
    now = whole_second(timezone.now())
    for number in range(3):
        ran(project_make(f"lab/team-{number}"), host, int((now - START).total_seconds()) - 7200, 600)
    target = address("lab") if page == "project" else reverse(f"dashboard:{page}")
    client.get(target)
    with django_assert_num_queries(QUERIES[page]):
        client.get(target)
