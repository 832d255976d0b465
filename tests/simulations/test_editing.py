"""What-ifs: a scenario with some of it changed."""

import pytest

from portal.simulations.editing import Edits, scenario_edited

BASE = {
    "clusters": [{"name": "c", "hosts": 1, "policy": {"lookback_seconds": 3600, "scheduler": "budgets"}}],
    "projects": [{"path": "lab", "share_percent": 50}],
}


@pytest.mark.parametrize(
    ("edit", "policy"),
    [
        ({"lookback_days": 3}, {"scheduler": "budgets", "lookback_days": 3}),
        ({"lookback_seconds": 60}, {"scheduler": "budgets", "lookback_seconds": 60}),
        ({"express_share_percent": 5}, BASE["clusters"][0]["policy"] | {"express_share_percent": 5}),
        ({"scheduler": "fifo"}, {"lookback_seconds": 3600, "scheduler": "fifo"}),
        ({}, BASE["clusters"][0]["policy"]),
    ],
)
def test_an_edit_takes_the_place_of_a_setting_however_that_is_spelt(edit, policy):
    # REST's own example was refused on a cluster whose lookback is no default.
    assert scenario_edited(BASE, Edits(policy=edit))["clusters"][0]["policy"] == policy
    assert BASE["clusters"][0]["policy"] == {"lookback_seconds": 3600, "scheduler": "budgets"}
