"""The API's documentation in a browser, under the portal's content policy."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]


def test_the_operations_are_drawn_and_the_browser_has_nothing_to_refuse(page: Page, console_errors: list[str]) -> None:
    page.goto("/api/docs/")
    operation = page.locator("#operations-workloads-workload_submit")
    expect(operation).to_be_visible()
    operation.locator(".opblock-summary-control").click()
    expect(operation.get_by_text("Idempotency-Key").first).to_be_visible()
    assert console_errors == []
