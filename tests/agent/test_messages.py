"""Who speaks is proved by a signature; what is old, another's or changed is refused with its reason."""

import json

import pytest

from portal.common import messages

KEY = messages.private_key(messages.key_make())
PUBLIC = bytes.fromhex(messages.public_key_hex(KEY))


def signed(**fields):
    told = {"host": "h1", "sequence": 7, "action": "report", "body": {"b": [1, "ü"], "a": None}}
    return messages.envelope_sign(key=KEY, **{**told, **fields})


def verify(envelope, **fields):
    asked = {"public_key": PUBLIC, "host": "h1", "action": "report", "after_sequence": 6}
    return messages.envelope_verify(envelope, **{**asked, **fields})


def test_a_signed_message_is_believed_after_it_went_through_json():
    assert verify(json.loads(json.dumps(signed())))["body"] == {"b": [1, "ü"], "a": None}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sequence", 8),
        ("body", {}),
        ("attempt", "5"),
        ("action", "desired"),
        ("signature", "00" * 64),
        ("signature", "x"),
    ],
)
def test_a_change_of_any_field_breaks_the_signature(field, value):
    with pytest.raises(messages.WrongSignature):
        verify({**signed(), field: value})


def test_another_key_is_not_believed():
    stranger = bytes.fromhex(messages.public_key_hex(messages.key_make()))
    with pytest.raises(messages.WrongSignature):
        verify(signed(), public_key=stranger)


def test_a_message_of_another_host_is_refused():
    with pytest.raises(messages.OtherHost):
        verify(signed(host="h2"))
    with pytest.raises(messages.WrongSignature):
        verify({**signed(host="h2"), "host": "h1"})


@pytest.mark.parametrize("after", [7, 8])
def test_a_replay_and_what_was_overtaken_are_refused(after):
    with pytest.raises(messages.OldSequence):
        verify(signed(), after_sequence=after)


def test_a_desired_state_is_no_report():
    with pytest.raises(messages.Malformed):
        verify(signed(action="desired"))


@pytest.mark.parametrize(
    "envelope",
    [None, [], "x", {}, {**signed(), "more": 1}, {**signed(), "sequence": True}, {**signed(), "host": "vm\0"}],
)
def test_what_has_not_the_shape_is_refused(envelope):
    with pytest.raises(messages.Malformed):
        verify(envelope)


@pytest.mark.parametrize("name", ["", "a b", "a*", "../x", "-a", "a" * 101, "a\n", "host.*"])
def test_a_host_name_that_could_mean_more_than_itself_has_no_queue(name):
    with pytest.raises(messages.Malformed):
        messages.broker_acl_rules(name)


@pytest.mark.parametrize("text", ["", "00", "g" * 64, "A" * 64])
def test_a_damaged_key_file_is_refused(text):
    with pytest.raises(ValueError, match="64 lower-case hex"):
        messages.private_key(text)
