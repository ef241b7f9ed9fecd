"""What the toolbar of a chart saves, and its data: the headers of every answer allow it."""

from pathlib import Path

from bench.browser import visit
from tests.browser.stored import MEASURED


def test_a_chart_is_saved_as_a_picture(server, page):
    visit(page, f"{server.url}/compare?run={MEASURED}")
    chart = page.get_by_test_id("stElementContainer").filter(
        has=page.get_by_test_id("stVegaLiteChart")
    )
    chart.first.hover()
    with page.expect_download() as saved:
        chart.first.get_by_role("button", name="Download as PNG").click()
    picture = Path(saved.value.path()).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n") and len(picture) > 1000
