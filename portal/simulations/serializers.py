"""Shapes of simulations in the API."""

from decimal import Decimal
from types import NoneType
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.budgets.serializers import PercentField
from portal.budgets.services import BURST_GPUS_MAX
from portal.common.serializers import MomentField, StrictSerializer, TextField, WholeField
from portal.simulations.checking import storable
from portal.simulations.models import RunState, Source
from portal.simulations.scenario import SEED_MAX
from portal.simulations.services import TITLE_LENGTH_MAX

HOSTS_MAX = 100_000
NUMBER_MAX = 2**31 - 1
WHOLE_DIGITS = 18


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(serializers.JSONField):
    """An object of JSON."""

    default_error_messages = {
        "object": "Must be an object.",
        "value": "Holds {shown}, which can't be stored.",
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("object")
        return dict(self._plain(data))

    def _plain(self, value: Any) -> Any:
        """Exact numbers of the body as JSON stores them; what is no number of JSON, and NUL in a text, is refused."""
        if isinstance(value, dict):
            return {self._plain(name): self._plain(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._plain(inner) for inner in value]
        if isinstance(value, Decimal):
            small = value.adjusted() < WHOLE_DIGITS  # asked first: nobody reckons with 1e999999999
            return int(value) if small and value == value.to_integral_value() else float(value)
        if not isinstance(value, str | int | float | NoneType) or (isinstance(value, str) and not storable(value)):
            self.fail("value", shown=ascii(str(value))[:40])
        return value


class ShareEditSerializer(StrictSerializer):
    """A project's budget in the simulation, from its beginning to its end."""

    project = TextField(help_text="A path that you may see, such as lab/nlp.")
    percent = PercentField()
    burst_gpus = WholeField(low=0, high=BURST_GPUS_MAX, required=False, allow_null=True, help_text="null: no cap.")


class RunRequestSerializer(StrictSerializer):
    """A simulation. Without `scenario`: the cluster as it is, or was, with the edits `shares`, `policy` and `hosts`."""

    title = TextField(help_text=f"1 to {TITLE_LENGTH_MAX} characters.")
    source = serializers.ChoiceField(  # type: ignore[assignment] # a field of that name
        choices=Source.choices, required=False, help_text="history where it isn't given."
    )
    cluster = TextField(required=False, allow_null=True, help_text="By its name; none where there is one only.")
    history_from = MomentField(required=False, allow_null=True)
    history_to = MomentField(required=False, allow_null=True, help_text="null: now.")
    trace = WholeField(low=1, high=NUMBER_MAX, required=False, allow_null=True, help_text="Of simulation-traces/.")
    scenario = ObjectField(required=False, allow_null=True, help_text="As docs/reference/simulator.md has it.")
    seed = WholeField(low=0, high=SEED_MAX, required=False, allow_null=True, help_text="null: the scenario's.")
    shares = ShareEditSerializer(many=True, required=False)
    policy = ObjectField(required=False, help_text="Settings of the policy that are different in it.")
    hosts = WholeField(low=1, high=HOSTS_MAX, required=False, allow_null=True)


class TraceSerializer(serializers.Serializer[Any]):
    """An uploaded trace."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    created_at = serializers.DateTimeField()


class RunRowSerializer(serializers.Serializer[Any]):
    """A simulation in a list."""

    id = serializers.IntegerField()
    title = serializers.CharField()
    source = serializers.ChoiceField(choices=Source.choices)  # type: ignore[assignment] # a field of that name
    state = serializers.ChoiceField(choices=RunState.choices)
    cluster = serializers.CharField(allow_null=True)
    author = serializers.CharField(allow_null=True)
    seed = serializers.IntegerField()
    history_from = serializers.DateTimeField(allow_null=True)
    history_to = serializers.DateTimeField(allow_null=True)
    trace = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    cancel_requested_at = serializers.DateTimeField(allow_null=True)
    progress_ppm = serializers.IntegerField()
    seconds_left = serializers.IntegerField(allow_null=True)
    wall_seconds = serializers.FloatField(allow_null=True)
    code_version = serializers.CharField(help_text="Empty until it has ended.")
    error = serializers.CharField(help_text="Why it failed.")


class RunSerializer(RunRowSerializer):
    """A simulation with what it was made from and, once it is done, its report."""

    notes = serializers.ListField(child=serializers.CharField())
    scenario = ObjectField()
    report = ObjectField(allow_null=True, help_text="null unless done. Projects that you may not see are left out.")
