"""What a proposal would do, from the simulator: the history replayed under today's budgets and under the draft's."""

from datetime import datetime

from django.db import transaction

from portal.projects.models import User
from portal.projects.selectors import user_require
from portal.proposals.models import Proposal
from portal.proposals.services.proposals import audited
from portal.proposals.transitions import PROPOSAL_STEPS, step_of
from portal.simulations.services import comparison_request

HISTORY_DAYS = 14


@transaction.atomic
def proposal_simulate(*, proposal: Proposal, actor: User, now: datetime, history_days: int = HISTORY_DAYS) -> Proposal:
    """Ask for a comparison of exactly these lines; while one is waiting or running, that one is it."""
    user_require(user=actor, action="budgets_edit", project=proposal.parent)
    # The proposal's row alone: reading the history takes a while, and others may edit the level meanwhile.
    rows = Proposal.objects.select_for_update(of=("self",)).select_related("parent", "cluster")
    proposal = rows.get(pk=proposal.pk)
    step_of(PROPOSAL_STEPS, "simulate", proposal.state, what="proposal")
    had = proposal.comparison
    if had is not None and (had.today.is_open or had.draft.is_open):
        return proposal
    shares = {line.project_id: (line.share_ppm, line.burst_gpus) for line in proposal.lines.all()}
    proposal.comparison = comparison_request(
        cluster=proposal.cluster,
        shares=shares,
        title=f"Proposal {proposal.pk}",
        author=actor,
        now=now,
        history_days=history_days,
    )
    proposal.save(update_fields=["comparison"])
    before, after = ({"comparison": each.pk if each else None} for each in (had, proposal.comparison))
    audited(proposal, "simulate", actor, now, before, after)
    return proposal
