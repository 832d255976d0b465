"""Whether the portal can work: what load balancers and people ask without signing in."""

import threading
from collections.abc import Callable

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from portal.common.availability import BROKER, Watch
from portal.common.starting import missing

Answers = dict[str, str]
OK, AWAY = "ok", "away"
DATABASE_SECONDS = 2.0
"""For so long an answer of the database is waited for, and as long for the one who asks before."""
_turn = threading.Lock()


def in_time(question: Callable[[], Answers]) -> Answers:
    """What the database answers, or that it is away because it hangs.

    A database that is stopped without closing its sockets answers nothing, and no setting of the connection ends that
    wait. So a thread of its own waits, one for all who ask, and ends when the database goes on or is gone.
    """
    answers: Answers = {}

    def ask() -> None:
        try:
            answers.update(question())
        finally:
            connection.close()
            _turn.release()

    if _turn.acquire(timeout=DATABASE_SECONDS):
        asker = threading.Thread(target=ask, name="health", daemon=True)
        asker.start()
        asker.join(DATABASE_SECONDS)
    return dict(answers) or {"database": AWAY}


def database_answer() -> str:
    """`ok`, or what is wrong with the database."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return AWAY
    return OK


DATABASE = Watch(lambda: in_time(lambda: {"database": database_answer()})["database"] == OK)
DATABASE_THERE_SECONDS = 1.0
"""For so long pages trust that the database answers; one that hangs for longer costs no further thread."""


def database_is_away() -> bool:
    """Whether the database answered nothing of late: asked once in a while, on a connection of its own."""
    return DATABASE.is_away(there_seconds=DATABASE_THERE_SECONDS)


def migrations_answer() -> str:
    """`ok`, or how many migrations the database still lacks."""
    try:
        executor = MigrationExecutor(connection)
        missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except Error:
        return AWAY
    return OK if not missing else f"{missing} migrations missing"


def broker_answer() -> str:
    """`ok`, or what is wrong with the broker: an answer of the last seconds, the one that pages show."""
    return AWAY if BROKER.is_away() else OK


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 once web, database and broker answer and the portal is brought up; else 503, saying what is missing."""
    return _answer(in_time(lambda: {"migrations": OK, "database": database_answer(), **missing()}))


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """As healthz, and the migrations are looked at anew each time."""
    return _answer(in_time(lambda: {"migrations": migrations_answer(), "database": database_answer(), **missing()}))


def _answer(answers: Answers) -> JsonResponse:
    answers = {**answers, "broker": broker_answer()}
    well = all(answer == OK for answer in answers.values())
    body = {"status": OK if well else "unavailable", "web": OK, **answers}
    return JsonResponse(body, status=200 if well else 503)
