"""axe-core on a page: what it finds, in short words."""

from pathlib import Path

from playwright.sync_api import Page

SOURCE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def axe_violations(page: Page) -> list[str]:
    """Each violation with the elements that it concerns; none is an empty list."""
    page.evaluate(SOURCE.read_text())
    found = page.evaluate("tags => axe.run(document, {runOnly: tags})", RULES)
    return [
        f"{violation['id']}: {node['target'][0]} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
