"""What a proposal gives to those who ask, in GPUs: a budget is a share, a request a number."""

from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction

from django.db.models import Sum

from portal.budgets.selectors import shares_of_cluster
from portal.clusters.models import Cluster
from portal.clusters.selectors import hosts_installed
from portal.common.units import PPM
from portal.proposals.models import GrantRequest, Proposal

CENT = Decimal("0.01")


def installed_gpus(*, cluster: Cluster) -> int:
    """GPUs of the hosts that are not retired, whatever their state."""
    return hosts_installed(cluster=cluster).order_by().aggregate(total=Sum("gpus"))["total"] or 0


def gpus_given(*, proposal: Proposal, requests: Iterable[GrantRequest], at: datetime) -> dict[int, Decimal]:
    """By request: the GPUs that the draft lets its project hold of those installed, cut down to hundredths."""
    asked = list(requests)
    if not asked:
        return {}
    share = shares_of_cluster(cluster=proposal.cluster, at=at).get(proposal.parent_id, Fraction(0))
    parent_gpus = share * installed_gpus(cluster=proposal.cluster)
    lines = dict(proposal.lines.values_list("project_id", "share_ppm"))
    return {each.pk: _cut_down(parent_gpus * lines.get(each.project_id, 0) / PPM) for each in asked}


def _cut_down(gpus: Fraction) -> Decimal:
    return (Decimal(gpus.numerator) / Decimal(gpus.denominator)).quantize(CENT, rounding=ROUND_DOWN)


def decimal_words(gpus: Decimal) -> str:
    """`2.4`, `20`: without zeros at the end."""
    return f"{gpus.normalize():,f}"
