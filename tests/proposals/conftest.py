"""The lab that tests of proposals begin with."""

import pytest

from tests.proposals.scene import Scene, scene_make


@pytest.fixture
def scene(db: None) -> Scene:
    return scene_make()
