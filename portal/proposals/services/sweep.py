"""Open proposals whose level was changed beside them are said to be stale."""

from datetime import datetime

from django.db.models import F, Max, OuterRef, Subquery

from portal.budgets.models import BudgetChange
from portal.proposals.models import Proposal
from portal.proposals.services.decisions import proposals_outdate
from portal.proposals.transitions import OPEN


def proposals_sweep(*, now: datetime) -> int:
    """Make open proposals on an older version stale; how many."""
    level = BudgetChange.objects.filter(cluster=OuterRef("cluster"), parent=OuterRef("parent")).order_by()
    newest = level.values("cluster", "parent").annotate(latest=Max("version")).values("latest")
    rows = Proposal.objects.filter(state=OPEN).annotate(newest=Subquery(newest)).exclude(newest=None)
    found = list(rows.exclude(newest=F("base_version")).select_related("parent", "cluster"))
    for proposal in found:
        proposals_outdate(proposal=proposal, now=now)
    return len(found)
