"""Shapes of budget changes in the API."""

from decimal import Decimal
from typing import Any

from drf_spectacular.drainage import set_override
from rest_framework import serializers

from portal.budgets.history import ChangeState
from portal.budgets.percent import PercentError, ppm_exact
from portal.budgets.services import BURST_GPUS_MAX, REASON_LENGTH_MAX
from portal.common.serializers import MomentField, StrictSerializer, TextField, WholeField, YesNoField

VERSION_MAX = 2_147_483_647
DIGITS_MAX = 40
PERCENT_SCHEMA = {
    "oneOf": [
        {"type": "number", "minimum": 0, "maximum": 100},
        {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,4})?$"},
    ],
    "description": "Percent of the parent's share, a number or its text, with at most 4 decimals.",
}


class PercentField(serializers.Field[int, Any, Any, Any]):
    """A percent, as a number or as text, read exactly: whole parts per million, or refused."""

    default_error_messages = {"invalid": "Must be a number from 0 to 100, or its text, with at most 4 decimals."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        set_override(self, "field", PERCENT_SCHEMA)

    def to_internal_value(self, data: Any) -> int:
        try:
            return ppm_exact(self._text(data))
        except PercentError as error:
            raise serializers.ValidationError(str(error), code="invalid") from None

    def to_representation(self, value: int) -> Any:
        return value

    def _text(self, data: Any) -> str:
        if isinstance(data, bool) or not isinstance(data, int | Decimal | str):
            self.fail("invalid")
        if isinstance(data, Decimal):
            if not data.is_finite() or abs(data.adjusted()) > DIGITS_MAX or len(data.as_tuple().digits) > DIGITS_MAX:
                self.fail("invalid")
            return format(data, "f")
        return str(data)


class ChildSerializer(StrictSerializer):
    """A child's budget: percent of its parent's share, burst cap in GPUs or null."""

    project = TextField(help_text="The child's path, such as lab/nlp.")
    percent = PercentField()
    burst_gpus = WholeField(low=0, high=BURST_GPUS_MAX, required=False, allow_null=True, help_text="null: no cap.")


class ReasonedSerializer(StrictSerializer):
    """What every change says."""

    reason = TextField(allow_blank=True, help_text=f"Why; 1 to {REASON_LENGTH_MAX} characters.")
    effective_at = MomentField(required=False, allow_null=True, help_text="null: at once.")


class BudgetChangeRequestSerializer(ReasonedSerializer):
    """One atomic edit of all children of a parent on a cluster, on top of the version that was looked at."""

    cluster = TextField(help_text="The cluster's name.")
    parent = TextField(help_text="The parent's path, such as lab.")  # type: ignore[assignment]  # as below
    base_version = WholeField(low=0, high=VERSION_MAX, help_text="`level_version` of the budgets that were looked at.")
    children = serializers.ListField(child=ChildSerializer(), help_text="Every child once.")


class UndoRequestSerializer(ReasonedSerializer):
    """Taking a change back, on top of the version that was looked at."""

    base_version = WholeField(low=0, high=VERSION_MAX, help_text="The newest version of the level.")


class ImportRequestSerializer(ReasonedSerializer):
    """A CSV as `budgets/export/` gives it. Only the columns cluster, project, version, percent, burst_gpus are read."""

    reason = TextField(required=False, allow_blank=True, default="", help_text="Needed unless it is a dry run.")
    csv = TextField(trim_whitespace=False, help_text="The text of the file.")
    dry_run = YesNoField(required=False, default=False, help_text="Only say what it would do.")


class MoveSerializer(serializers.Serializer[Any]):
    """A child's budget before and after; null percent: none."""

    project = serializers.CharField()
    from_percent = serializers.FloatField(allow_null=True)
    to_percent = serializers.FloatField(allow_null=True)
    from_burst_gpus = serializers.IntegerField(allow_null=True)
    to_burst_gpus = serializers.IntegerField(allow_null=True)


class PlannedAfterSerializer(serializers.Serializer[Any]):
    """A change still ahead that sets back what was decided before its moment."""

    change = serializers.IntegerField(help_text="Its id.")
    effective_at = serializers.DateTimeField()
    sets_back = MoveSerializer(many=True)


class ChangeLineSerializer(serializers.Serializer[Any]):
    """A child's budget in a change."""

    project = serializers.CharField()
    percent = serializers.FloatField()
    share_ppm = serializers.IntegerField()
    burst_gpus = serializers.IntegerField(allow_null=True)


class BudgetChangeSerializer(serializers.Serializer[Any]):
    """A change of one level: who, when, why, from and to, and what has become of it."""

    id = serializers.IntegerField()
    cluster = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]  # the base has an attribute so named
    version = serializers.IntegerField()
    base_version = serializers.IntegerField()
    author = serializers.CharField(allow_null=True, help_text="null: the system.")
    reason = serializers.CharField()
    created_at = serializers.DateTimeField()
    effective_at = serializers.DateTimeField()
    state = serializers.ChoiceField(choices=[(state.value, state.name) for state in ChangeState])
    undoes = serializers.IntegerField(allow_null=True, help_text="The change that it takes back.")
    withdraws = serializers.IntegerField(allow_null=True, help_text="The planned change that it withdraws.")
    withdrawn_by = serializers.IntegerField(allow_null=True)
    moves = MoveSerializer(many=True)


class BudgetChangeDetailSerializer(BudgetChangeSerializer):
    """The same with every child's budget."""

    planned_after = PlannedAfterSerializer(many=True, help_text="Changes still ahead that set back what it moved.")
    level_version = serializers.IntegerField(help_text="The newest version of the level: what an edit is based on.")
    children = ChangeLineSerializer(many=True)


class ImportErrorSerializer(serializers.Serializer[Any]):
    """What is wrong with a line of the file; the header is line 1."""

    line = serializers.IntegerField()
    column = serializers.CharField(allow_blank=True)
    code = serializers.CharField()
    detail = serializers.CharField()


class ImportLevelSerializer(serializers.Serializer[Any]):
    """A level that the file changes."""

    cluster = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]  # the base has an attribute so named
    base_version = serializers.IntegerField()
    moves = MoveSerializer(many=True)
    planned_after = PlannedAfterSerializer(many=True)


class ImportSerializer(serializers.Serializer[Any]):
    """What an import did, or would do: nothing at all where it has errors."""

    dry_run = serializers.BooleanField()
    rows = serializers.IntegerField()
    levels = ImportLevelSerializer(many=True)
    errors = ImportErrorSerializer(many=True)  # type: ignore[assignment]  # the base has an attribute so named
    changes = serializers.ListField(child=serializers.IntegerField(), help_text="Ids of the changes that were made.")
