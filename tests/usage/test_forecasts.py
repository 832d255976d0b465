"""A forecast begins where the last pass stood, and passes find what it said when nothing more starts."""

import pytest

from portal.projects.models import Project
from portal.scheduling.models import Balance
from portal.usage.forecast import Forecast, Stop
from portal.usage.forecasts import forecast_read, lookback_start
from portal.usage.segments import window_segments
from tests.factories import after, budget_make, project_make
from tests.scheduling.conftest import Lab

pytestmark = pytest.mark.django_db
HOUR, DAY = 3600, 86_400


@pytest.fixture
def lab() -> Lab:
    """Two projects at 50 % each on two hosts of 8; one of them has two children."""
    made = Lab()
    project_make("lab/nlp/chat")
    project_make("lab/nlp/search")
    budget_make(cluster=made.cluster, parent=made.nlp, percent={"chat": 25, "search": 50})
    return made


def forecast_at(lab: Lab, project: Project, at: int) -> Forecast:
    found = forecast_read(cluster=lab.cluster, project=project, now=after(at))
    assert found is not None
    return found


def balance_ppm(lab: Lab, project: Project) -> int:
    """As the last pass left it."""
    row = Balance.objects.get(cluster=lab.cluster, project=project)
    return (row.quota_gpu_seconds - row.usage_gpu_seconds) * 1_000_000 // row.quota_gpu_seconds


def test_it_begins_with_the_balance_of_a_pass_at_that_moment(lab: Lab) -> None:
    chat = project_make("lab/nlp/chat")
    lab.start(0, gpus=4, minimum=2 * HOUR, project=chat)
    lab.start(0, gpus=2, minimum=HOUR, project=project_make("lab/nlp/search"))
    lab.make_pass(90 * 60)
    for project in (lab.nlp, chat):
        first = forecast_at(lab, project, 90 * 60).points[0]
        assert first.quiet_ppm == first.going_ppm == balance_ppm(lab, project)


def test_a_pass_a_day_later_finds_what_the_upper_course_said(lab: Lab) -> None:
    attempt = lab.start(0, gpus=4, minimum=2 * HOUR)
    forecast = forecast_at(lab, lab.nlp, HOUR)
    lab.report(lab.hosts[0], 2 * HOUR, exited={(attempt, 0): 0})
    point = next(each for each in forecast.points if each.at >= forecast.points[0].at + DAY)
    lab.make_pass(HOUR + point.at - forecast.points[0].at)
    assert balance_ppm(lab, lab.nlp) == point.quiet_ppm


def test_a_pass_a_day_later_finds_what_the_lower_course_said_while_it_goes_on(lab: Lab) -> None:
    lab.start(0, gpus=1, minimum=2 * HOUR)
    forecast = forecast_at(lab, lab.nlp, HOUR)
    point = next(each for each in forecast.points if each.at >= forecast.points[0].at + DAY)
    lab.make_pass(HOUR + point.at - forecast.points[0].at)
    assert balance_ppm(lab, lab.nlp) == point.going_ppm


def test_the_root_has_none_and_a_project_without_a_budget_says_so(lab: Lab) -> None:
    assert forecast_read(cluster=lab.cluster, project=lab.root, now=after(HOUR)) is None
    guests = project_make("lab/guests")
    assert forecast_at(lab, guests, HOUR).stop == Stop.NO_BUDGET


def test_segments_that_were_read_already_give_the_same(lab: Lab) -> None:
    lab.start(0, gpus=4, minimum=HOUR)
    now = after(3 * HOUR)
    columns = window_segments(cluster=lab.cluster, start=lookback_start(cluster=lab.cluster, now=now), end=now)
    given = forecast_read(cluster=lab.cluster, project=lab.nlp, now=now, columns=columns)
    assert given == forecast_at(lab, lab.nlp, 3 * HOUR)
