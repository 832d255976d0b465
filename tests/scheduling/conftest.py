"""A small lab under the scheduler: two projects at 50 % each, two hosts of 8 GPUs, and a clock of seconds."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import pytest

from portal.clusters.models import Cluster, Host
from portal.projects.models import Project
from portal.scheduling.models import Pass, ReportsProbe
from portal.scheduling.observe import report_apply
from portal.scheduling.probe import probe_note
from portal.scheduling.services import pass_run
from portal.usage.models import Segment
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Workload
from tests.factories import START, after, budget_make, cluster_make, host_make, project_make, user_make, workload_make


class Lab:
    """Moments are seconds after START. `told` collects the hosts that were told something."""

    def __init__(self, hosts: int = 2, gpus: int = 8) -> None:
        self.cluster: Cluster = cluster_make("lab")
        self.hosts: list[Host] = [
            host_make(cluster=self.cluster, gpus=gpus, name=f"lab-{number}", boot_id="boot") for number in range(hosts)
        ]
        self.nlp: Project = project_make("lab/nlp")
        self.vision: Project = project_make("lab/vision")
        self.root: Project = project_make("lab")
        budget_make(cluster=self.cluster, parent=self.root, percent={"nlp": 50, "vision": 50})
        self.author = user_make(project=self.root)
        self.told: set[int] = set()

    def tell(self, hosts: Collection[int], now: datetime) -> None:
        self.told |= set(hosts)

    def submit(self, *, at: int = 0, project: Project | None = None, gpus: int = 1, **fields: Any) -> Workload:
        """A pending workload; `gpus` is per replica, `minimum` the minimum runtime in seconds."""
        fields.setdefault("author", self.author)
        return workload_make(
            project=project or self.nlp,
            cluster=self.cluster,
            gpus_per_replica=gpus,
            min_runtime_seconds=fields.pop("minimum", 0),
            submitted_at=after(at),
            **fields,
        )

    def make_pass(self, at: int) -> Pass:
        done = pass_run(cluster=self.cluster, now=after(at), tell=self.tell)
        assert done is not None
        return done

    def report(
        self,
        host: Host,
        at: int,
        *,
        running: Iterable[tuple[Attempt, int]] = (),
        exited: dict[tuple[Attempt, int], int | None] | None = None,
        **body: Any,
    ) -> None:
        """What a host says: up to date and of the same boot unless `body` says otherwise."""
        replicas = [_said(attempt, replica, "running") for attempt, replica in running]
        replicas += [_said(attempt, replica, "exited", code) for (attempt, replica), code in (exited or {}).items()]
        fresh = Host.objects.select_related("cluster").get(pk=host.pk)
        report = {
            "boot_id": "boot",
            "gpus": host.gpus,
            "gpu_model": "",
            "simulated": False,
            "separates_users": False,
            "agent_version": "",
            "desired_sequence": fresh.desired_sequence,
            "replicas": replicas,
            "logs": [],
            **body,
        }
        report_apply(host=fresh, report=report, now=after(at), tell=self.tell)  # type: ignore[arg-type]

    def hear_itself(self, since: int, until: int) -> None:
        """The portal's own probes come through broker and receiver, one every ten seconds."""
        for at in range(since, until + 1, 10):
            last = ReportsProbe.objects.first()
            probe_note(last, sequence=int(after(at).timestamp() * 1000), now=after(at))

    def all_run(self, at: int) -> None:
        """Every host says that all that was assigned to it runs."""
        self._all_say(at, stopping_exit=None)

    def all_stop(self, at: int) -> None:
        """Every host says that what it was told to stop is gone, and that the rest runs."""
        self._all_say(at, stopping_exit=143)

    def _all_say(self, at: int, stopping_exit: int | None) -> None:
        for host in self.hosts:
            here = GpuClaim.objects.filter(host=host, occupied__upper_inf=True).select_related("attempt")
            pairs = {(claim.attempt_id, claim.replica): claim.attempt for claim in here}
            stopping = {
                key for key, one in pairs.items() if one.state == AttemptState.STOPPING and stopping_exit is not None
            }
            self.report(
                host,
                at,
                running=[(one, key[1]) for key, one in pairs.items() if key not in stopping],
                exited={(pairs[key], key[1]): stopping_exit for key in stopping},
            )

    def start(self, at: int, **fields: Any) -> Attempt:
        """A workload that is submitted, decided and running, all at one second."""
        workload = self.submit(at=at, **fields)
        self.make_pass(at)
        self.all_run(at)
        return attempt_of(workload)

    def ledger(self, attempt: Attempt | None = None) -> list[tuple[str, int, int | None]]:
        """(standing, start, end) of segments in order, in seconds after START."""
        rows = Segment.objects.order_by("start_at", "pk")
        rows = rows if attempt is None else rows.filter(attempt=attempt)
        return [
            (row.standing, seconds(row.start_at), None if row.end_at is None else seconds(row.end_at)) for row in rows
        ]


def seconds(at: datetime) -> int:
    return int((at - START).total_seconds())


def attempt_of(workload: Workload) -> Attempt:
    """The workload's latest attempt."""
    return Attempt.objects.filter(workload=workload).select_related("workload").latest("number")


def fresh(row: Any) -> Any:
    """The row as it stands now."""
    return type(row).objects.get(pk=row.pk)


def _said(attempt: Attempt, replica: int, state: str, code: int | None = None) -> dict[str, Any]:
    return {
        "attempt": attempt.pk,
        "replica": replica,
        "state": state,
        "exit_code": code,
        "detail": "",
        "checkpointed_ago_seconds": None,
    }


@pytest.fixture
def lab(db: None) -> Lab:
    return Lab()
