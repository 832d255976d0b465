"""The lab that tests of pages look at."""

import pytest

from tests.dashboard.scene import Scene, scene_make


@pytest.fixture
def scene(db) -> Scene:
    """Two projects, a host, something that runs, something that waits."""
    return scene_make()
