"""The OpenAPI schema is valid, and what it describes doesn't break, whatever is sent."""

from typing import Any

import pytest
import schemathesis
from django.core.management import call_command
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from portal.common.problems import MEDIA_TYPE
from portal.workloads.models import Workload
from portal.wsgi import application
from tests.api.support import lab_make, token_of
from tests.factories import START, attempt_make, budget_make, segment_make, workload_make

EXAMPLES = 12


@pytest.fixture
def token(transactional_db: None) -> str:
    """An administrator's, in a small laboratory that has something in every list."""
    lab = lab_make()
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    running = workload_make(project=lab.nlp, cluster=lab.cluster, author=lab.administrator)
    segment_make(attempt=attempt_make(workload=running, hosts=[lab.host]), host=lab.host, start_at=START)
    workload_make(project=lab.nlp, cluster=lab.cluster, author=lab.administrator)
    return token_of(lab.administrator)


@pytest.fixture
def described(transactional_db: None) -> Any:
    return schemathesis.openapi.from_wsgi("/api/schema/?format=json", application, config=SchemathesisConfig())


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_meets_a_server_error_or_an_answer_that_is_not_described(
    described: Any, token: str, mode: GenerationMode
) -> None:
    operations = [result.ok() for result in described.get_all_operations()]
    assert len(operations) >= 13
    for operation in operations:
        requests_try(operation, operation.as_strategy(generation_mode=mode), token)


def requests_try(operation: Any, cases: Any, token: str) -> None:
    """Requests at one operation, about half of them at what there really is."""

    @given(case=cases, existing=strategies.booleans())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answers_well(case: Any, existing: bool) -> None:
        if existing:
            aim_at_what_exists(operation.path, case)
        checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
        case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=checks)

    try:
        answers_well()
    except Unsatisfiable:
        # An operation without parameters can't be asked wrongly.
        assert not any(operation.iter_parameters())


def aim_at_what_exists(path: str, case: Any) -> None:
    """Put real names in place of made-up ones, so that more than 404 is seen."""
    names = {"id": Workload.objects.latest("pk").pk, "name": "local" if "clusters" in path else "node-1"}
    for parameter in case.path_parameters or {}:
        case.path_parameters[parameter] = names.get(parameter, "lab/nlp")
    if path.endswith("/logs/"):
        case.query = {}
    if isinstance(case.body, dict):
        kept = {name: value for name, value in case.body.items() if name in {"name", "resumable", "priority"}}
        case.body = {**kept, "project": "lab/nlp", "command": ["true"]}


def test_the_schema_is_valid_and_made_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("spectacular", validate=True, fail_on_warn=True)
    assert "/api/v1/workloads/{id}/cancel/" in capsys.readouterr().out


def test_every_operation_may_answer_with_a_problem(client: Client, db: None) -> None:
    paths = client.get("/api/schema/?format=json").json()["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert len(operations) >= 13
    assert all(MEDIA_TYPE in operation["responses"]["default"]["content"] for operation in operations)


def test_the_documentation_page_has_no_inline_script_or_style(client: Client, db: None) -> None:
    page = client.get("/api/docs/")
    html = page.content.decode()
    assert page.status_code == 200
    assert "<style" not in html
    assert html.count("<script") == html.count("<script src=")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    script = client.get("/api/docs/?script=")
    assert script.headers["Content-Type"].startswith("application/javascript")
