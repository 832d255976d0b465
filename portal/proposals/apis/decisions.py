"""REST: what is done to a proposal, each by POST on a path of its own."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import body_read, person
from portal.common.filters import parameters_require_known
from portal.projects.models import User
from portal.proposals.apis.proposals import answer, proposal_found
from portal.proposals.models import Proposal
from portal.proposals.serializers import CommentCreateSerializer, DecisionSerializer, ProposalDetailSerializer
from portal.proposals.services.comments import comment_add
from portal.proposals.services.decisions import proposal_approve, proposal_reject, proposal_withdraw
from portal.proposals.services.proposals import proposal_open, proposal_revise
from portal.proposals.services.simulations import proposal_simulate


class _Act(APIView):
    """Find it, act, answer with what it is now."""

    def done(self, request: Request, pk: int) -> Response:
        parameters_require_known(request, [], paged=False)
        user = person(request)
        self.act(proposal_found(user, pk), user, request)
        return Response(answer(user, pk))

    def act(self, proposal: Proposal, user: User, request: Request) -> Any:
        raise NotImplementedError


class ProposalOpen(_Act):
    """Opening for debate."""

    @extend_schema(operation_id="proposal_open", request=None, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Open a draft; again changes nothing. 409: its base is stale, and what changed since."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        proposal_open(proposal=proposal, actor=user, now=timezone.now())


class ProposalRevise(_Act):
    """Taking back to a draft."""

    @extend_schema(operation_id="proposal_revise", request=None, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Take an open or stale proposal back to a draft, to change it."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        proposal_revise(proposal=proposal, actor=user, now=timezone.now())


class ProposalApprove(_Act):
    """Approving."""

    @extend_schema(operation_id="proposal_approve", request=DecisionSerializer, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Approve, with a reason: writes the budget change. 409: stale, and what changed since. 403: your own."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        body = body_read(DecisionSerializer, request)
        proposal_approve(proposal=proposal, actor=user, now=timezone.now(), **body)


class ProposalReject(_Act):
    """Rejecting."""

    @extend_schema(operation_id="proposal_reject", request=DecisionSerializer, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Reject, with a reason; again changes nothing."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        body = body_read(DecisionSerializer, request)
        proposal_reject(proposal=proposal, actor=user, now=timezone.now(), **body)


class ProposalWithdraw(_Act):
    """Withdrawing."""

    @extend_schema(operation_id="proposal_withdraw", request=DecisionSerializer, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Withdraw what is not decided; again changes nothing."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        body = body_read(DecisionSerializer, request)
        proposal_withdraw(proposal=proposal, actor=user, now=timezone.now(), **body)


class ProposalComment(_Act):
    """Commenting."""

    @extend_schema(operation_id="proposal_comment", request=CommentCreateSerializer, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Add to the debate. What was said is never changed nor deleted."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        body = body_read(CommentCreateSerializer, request)
        comment_add(proposal=proposal, author=user, now=timezone.now(), **body)


class ProposalSimulate(_Act):
    """Simulating."""

    @extend_schema(operation_id="proposal_simulate", request=None, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Replay the last 14 days under today's budgets and under the draft's; while that runs, again is the same."""
        return self.done(request, pk)

    def act(self, proposal: Proposal, user: User, request: Request) -> None:
        proposal_simulate(proposal=proposal, actor=user, now=timezone.now())
