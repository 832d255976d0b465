"""Shapes of requests and proposals in the API."""

from typing import Any

from rest_framework import serializers

from portal.budgets.serializers import VERSION_MAX, ChildSerializer, PlannedAfterSerializer
from portal.common.serializers import MomentField, StrictSerializer, TextField, WholeField
from portal.proposals.models import ProposalState, RequestState
from portal.proposals.services.requests import GPUS_MAX, TEXT_LENGTH_MAX, TITLE_LENGTH_MAX
from portal.simulations.models import RunState

ID_MAX = 2**31 - 1


class RequestEditSerializer(StrictSerializer):
    """What a draft of a request says; what is left out stays."""

    title = TextField(help_text=f"1 to {TITLE_LENGTH_MAX} characters.")
    purpose = TextField(help_text=f"What the GPUs are for; 1 to {TEXT_LENGTH_MAX} characters.")
    impact = TextField(help_text=f"What impact is expected; 1 to {TEXT_LENGTH_MAX} characters.")
    gpus = WholeField(low=1, high=GPUS_MAX, help_text="GPUs that the project should hold, what it holds now included.")
    from_at = MomentField()
    until_at = MomentField()


class RequestCreateSerializer(RequestEditSerializer):
    """A request of a lead: a draft until it is submitted."""

    project = TextField(help_text="The project's path, such as lab/nlp.")
    cluster = TextField(help_text="The cluster's name.")


class DecisionSerializer(StrictSerializer):
    """Why; decisions need it, a withdrawal may do without."""

    reason = TextField(required=False, allow_blank=True, default="", help_text=f"Up to {TEXT_LENGTH_MAX} characters.")


class CommentCreateSerializer(StrictSerializer):
    """Something to say about a proposal."""

    text = TextField(allow_blank=True, help_text=f"Plain text, 1 to {TEXT_LENGTH_MAX} characters.")


class ProposalEditSerializer(StrictSerializer):
    """What a draft of a proposal says; what is left out stays."""

    title = TextField(help_text=f"1 to {TITLE_LENGTH_MAX} characters.")
    reason = TextField(help_text="The case for it.")
    effective_at = MomentField(required=False, allow_null=True, help_text="null: when it is approved.")
    children = serializers.ListField(child=ChildSerializer(), help_text="Every child of the parent once.")
    requests = serializers.ListField(
        child=WholeField(low=1, high=ID_MAX), required=False, help_text="Ids of requests that it takes up."
    )


class ProposalCreateSerializer(ProposalEditSerializer):
    """A budget change to debate: a draft until it is opened."""

    cluster = TextField(help_text="The cluster's name.")
    parent = TextField(  # type: ignore[assignment]  # a field of ours; the base has an attribute so named
        help_text="The parent's path, such as lab."
    )
    base_version = WholeField(low=0, high=VERSION_MAX, help_text="The version of the level that was looked at.")


class RebaseSerializer(StrictSerializer):
    """The proposal on top of the newest version, as a person wants it to be."""

    base_version = WholeField(low=0, high=VERSION_MAX, help_text="The version that was looked at.")
    effective_at = MomentField(required=False, allow_null=True, help_text="Left out: as it was.")
    children = serializers.ListField(child=ChildSerializer(), help_text="Every child of the parent once.")


class LastGrantSerializer(serializers.Serializer[Any]):
    """What the ledger said of the project's last grant when the request was submitted; `reason`: there was none."""

    reason = serializers.CharField(required=False)
    from_at = serializers.DateTimeField(required=False)
    until_at = serializers.DateTimeField(required=False)
    owed_gpu_seconds = serializers.IntegerField(required=False)
    delivered_gpu_seconds = serializers.IntegerField(required=False)
    charged_gpu_seconds = serializers.IntegerField(required=False)
    unallocated_gpu_seconds = serializers.IntegerField(required=False)
    held_gpu_seconds = serializers.IntegerField(required=False)
    starts = serializers.IntegerField(required=False)
    wait_p50_seconds = serializers.IntegerField(required=False, allow_null=True)
    wait_p90_seconds = serializers.IntegerField(required=False, allow_null=True)
    idle_held_gpu_seconds = serializers.IntegerField(required=False, allow_null=True)
    idle_held_reason = serializers.CharField(required=False, help_text="Why idle_held_gpu_seconds is null.")


class RequestSerializer(serializers.Serializer[Any]):
    """A request for a grant."""

    id = serializers.IntegerField()
    project = serializers.CharField()
    cluster = serializers.CharField()
    author = serializers.CharField()
    state = serializers.ChoiceField(choices=RequestState.choices)
    title = serializers.CharField()
    purpose = serializers.CharField()
    impact = serializers.CharField()
    gpus = serializers.IntegerField()
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    given_gpus = serializers.FloatField(
        allow_null=True, help_text="What the project was to hold when this was granted; `gpus` is what was asked."
    )
    last_grant = LastGrantSerializer(allow_null=True, help_text="null: not submitted yet.")
    created_at = serializers.DateTimeField()
    submitted_at = serializers.DateTimeField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)
    decision_reason = serializers.CharField()


class ProposalSerializer(serializers.Serializer[Any]):
    """A proposal in a list."""

    id = serializers.IntegerField()
    title = serializers.CharField()
    cluster = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]  # a field of ours; the base has an attribute so named
    author = serializers.CharField()
    edited_by = serializers.CharField(help_text="Who set its lines last.")
    state = serializers.ChoiceField(choices=ProposalState.choices)
    reason = serializers.CharField()
    base_version = serializers.IntegerField()
    current_version = serializers.IntegerField(help_text="Of the level; above base_version: rebase it first.")
    effective_at = serializers.DateTimeField(allow_null=True, help_text="null: when it is approved.")
    requests = serializers.ListField(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()
    opened_at = serializers.DateTimeField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)
    decision_reason = serializers.CharField()
    budget_change = serializers.IntegerField(allow_null=True, help_text="What approving it wrote.")


class ProposalChildSerializer(serializers.Serializer[Any]):
    """A child today and in the draft."""

    project = serializers.CharField()
    share_ppm = serializers.IntegerField()
    burst_gpus = serializers.IntegerField(allow_null=True)
    today_share_ppm = serializers.IntegerField()
    today_burst_gpus = serializers.IntegerField(allow_null=True)


class ProposalAskedSerializer(serializers.Serializer[Any]):
    """A request that it takes up: what is asked, and what the draft gives."""

    request = serializers.IntegerField()
    gpus = serializers.IntegerField()
    given_gpus = serializers.FloatField()


class ProposalOthersSerializer(serializers.Serializer[Any]):
    """The children that you don't see and what is not given out, as one sum."""

    share_ppm = serializers.IntegerField()
    today_share_ppm = serializers.IntegerField()


class CommentSerializer(serializers.Serializer[Any]):
    """What somebody said."""

    id = serializers.IntegerField()
    author = serializers.CharField()
    at = serializers.DateTimeField()
    text = serializers.CharField()


class ProposalRunSerializer(serializers.Serializer[Any]):
    """A simulation that a proposal stands on: `GET simulations/{id}/` has its report."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=RunState.choices)
    progress_ppm = serializers.IntegerField()
    error = serializers.CharField()


class ProposalSimulationSerializer(serializers.Serializer[Any]):
    """The history replayed under today's budgets and under the draft's."""

    today = ProposalRunSerializer()
    draft = ProposalRunSerializer()


class ProposalDetailSerializer(ProposalSerializer):
    """A proposal with its lines beside today's, what changed since its base, what was said, and its simulation."""

    children = ProposalChildSerializer(many=True)
    asked = ProposalAskedSerializer(many=True)
    others = ProposalOthersSerializer(
        allow_null=True, help_text="null: you see the level. Else the sum of what `children` leaves out."
    )
    planned_after = PlannedAfterSerializer(
        many=True, help_text="Changes still ahead that would set back what it moves, or moved."
    )
    changed_since = serializers.ListField(child=serializers.CharField(), help_text="Changes after the base, in words.")
    comments = CommentSerializer(many=True)
    simulation = ProposalSimulationSerializer(allow_null=True)
