"""Whether the portal can work: what load balancers and people ask without signing in."""

from collections.abc import Callable

from celery import current_app
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

from portal.common.starting import missing

BROKER_SECONDS = 3
OK = "ok"


def database_answer() -> str:
    """`ok`, or what is wrong with the database."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "away"
    return OK


def migrations_answer() -> str:
    """`ok`, or how many migrations the database still lacks."""
    try:
        executor = MigrationExecutor(connection)
        missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except Error:
        return "away"
    return OK if not missing else f"{missing} migrations missing"


def broker_answer() -> str:
    """`ok`, or what is wrong with the broker."""
    try:
        with current_app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_SECONDS)
    except OperationalError:
        return "away"
    return OK


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 once web, database and broker answer and the portal is brought up; else 503, saying what is missing."""
    return _answer({"database": database_answer, "broker": broker_answer}, missing())


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """As healthz, and the migrations are looked at anew each time."""
    return _answer({"database": database_answer, "broker": broker_answer, "migrations": migrations_answer}, missing())


def _answer(questions: dict[str, Callable[[], str]], lacking: dict[str, str]) -> JsonResponse:
    answers = {name: question() for name, question in questions.items()}
    answers = {"migrations": OK, **answers, **lacking}
    well = all(answer == OK for answer in answers.values())
    body = {"status": OK if well else "unavailable", "web": OK, **answers}
    return JsonResponse(body, status=200 if well else 503)
