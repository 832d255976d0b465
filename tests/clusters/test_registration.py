"""Registering a host from what its agent says of itself."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from portal.clusters.models import Host
from portal.clusters.registration import description_parse
from portal.common.errors import Refused
from tests.factories import cluster_make

DESCRIBED = {"name": "node-1", "public_key": "ab" * 32, "gpus": 8, "gpu_model": "H100", "simulated": False}


@pytest.mark.parametrize(
    ("name", "value"),
    [("name", 5), ("public_key", "zz"), ("gpus", "8"), ("gpus", True), ("simulated", 0), ("gpu_model", None)],
)
def test_a_field_of_the_wrong_kind_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(Refused) as refused:
        description_parse(json.dumps({**DESCRIBED, name: value}))
    assert refused.value.errors[0].attr == name


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "1" * 70_000])
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="no host's description"):
        description_parse(text)


@pytest.mark.django_db
def test_the_command_registers_from_a_file_and_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster_make("h100")
    (tmp_path / "node.json").write_text(json.dumps(DESCRIBED))
    call_command("host_register", str(tmp_path / "node.json"), "--cluster", "h100")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({**DESCRIBED, "name": "node-2"})))
    call_command("host_register", "--cluster", "h100")
    assert sorted(Host.objects.values_list("name", flat=True)) == ["node-1", "node-2"]
    assert bytes(Host.objects.get(name="node-1").public_key or b"") == bytes.fromhex("ab" * 32)
    assert "node-2 is registered in h100 with 8 GPUs" in capsys.readouterr().out


@pytest.mark.django_db
def test_the_command_says_what_is_wrong_in_a_sentence(tmp_path: Path) -> None:
    cluster_make("h100")
    with pytest.raises(CommandError, match="No such file"):
        call_command("host_register", str(tmp_path / "none.json"), "--cluster", "h100")
    (tmp_path / "node.json").write_text(json.dumps(DESCRIBED))
    with pytest.raises(CommandError, match="h100"):
        call_command("host_register", str(tmp_path / "node.json"), "--cluster", "b200")
