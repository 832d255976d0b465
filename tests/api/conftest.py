"""Fixtures of the API's tests."""

import pytest
from rest_framework.test import APIClient

from tests.api.support import Lab, client_of, lab_make


@pytest.fixture
def lab(db: None) -> Lab:
    return lab_make()


@pytest.fixture
def member(lab: Lab) -> APIClient:
    """A member of lab/nlp."""
    return client_of(lab.member)
