"""The first page that anybody sees."""

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]


def test_the_sign_in_page_opens_and_the_browser_has_no_complaint(page, console_errors):
    page.goto("/accounts/login/")
    assert page.get_by_label("Password").is_visible()
    assert console_errors == []
