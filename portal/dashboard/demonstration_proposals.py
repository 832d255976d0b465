"""The demonstration's debate: a request of a lead, and a proposal that takes it up, open for the manager to decide.

An administrator wrote it: the demonstration has one manager, who would not approve what is their own.
"""

from datetime import datetime, timedelta

from portal.budgets.selectors import level_at
from portal.clusters.models import Cluster
from portal.common.units import whole_second
from portal.dashboard.proposal_rows import lines_asked, parent_gpus_of
from portal.projects.models import Project, User
from portal.projects.selectors import user_may
from portal.proposals.models import GrantRequest
from portal.proposals.services.proposals import proposal_create, proposal_open
from portal.proposals.services.requests import request_create, request_submit

GRANT_DAYS = 28


def demonstration_debate(*, projects: dict[str, Project], cluster: Cluster, now: datetime) -> None:
    """Made once, where nobody has asked for anything yet and hosts are there to divide."""
    asking, parent = projects["lab/robotics"], projects["lab"]
    gpus = parent_gpus_of(cluster=cluster, parent=parent, at=now)
    if not gpus or GrantRequest.objects.exists():
        return
    lead, writer = (User.objects.get(username=name) for name in ("lead", "admin"))
    if not _leads(lead, asking) or not _leads(writer, parent):
        return
    begin = whole_second(now).replace(minute=0, second=0) + timedelta(days=1)
    request = request_create(
        project=asking,
        cluster=cluster,
        title="Night shifts for the arms",
        purpose="Grasping policies for the new gripper: one sweep a night, evaluated on the real arms in the morning.",
        impact="From 71 % to 85 % of grasps at the first try. The curve is on the wall by the end of the month.",
        gpus=max(1, int(gpus * 3 / 10)),
        from_at=begin,
        until_at=begin + timedelta(days=GRANT_DAYS),
        author=lead,
        now=now,
    )
    request_submit(request=request, actor=lead, now=now)
    level = level_at(cluster=cluster, parent=parent, at=now)
    children = list(parent.children.filter(archived_at=None).order_by("slug"))
    lines = lines_asked(children=children, today=level.lines, requests=[request], parent_gpus=gpus)
    proposal = proposal_create(
        cluster=cluster,
        parent=parent,
        base_version=level.current_version,
        title="Robotics at night",
        reason="Out of what is not given out: nobody else loses a GPU. In four weeks we see whether it was worth it.",
        lines=[(child, *lines[child.pk]) for child in children],
        author=writer,
        effective_at=None,
        now=now,
        requests=[request.pk],
    )
    proposal_open(proposal=proposal, actor=writer, now=now)


def _leads(user: User, project: Project) -> bool:
    """Somebody may have taken the role away since the first start."""
    return user_may(user=user, action="budgets_edit", project=project)
