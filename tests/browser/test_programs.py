"""The viewer of program texts in a real browser: search, fold, compare two strategies, and follow
an op to its line.
"""

from playwright.sync_api import expect

from tests.browser.server import answered, settled, visit


def test_search_fold_compare_and_the_line_that_made_an_op(page, finished_run):
    visit(page, finished_run)
    answered(page)
    page.get_by_role("tab", name="Programs").click()
    tabs = page.get_by_test_id("stTabs")
    expect(tabs.get_by_role("region",
                            name="Lines of The program")).to_contain_text(
        "def program(x, weights, bias):")

    def pick(name: str) -> None:
        tabs.get_by_role("radio", name=name, exact=True).click()
        settled(page)

    pick("Automatic")
    pick("Compiled HLO")
    entry = tabs.get_by_role("region", name="Lines of main")
    expect(entry).to_contain_text("all-reduce(")
    expect(entry).not_to_contain_text("metadata")
    expect(tabs.get_by_role("region", name="Lines of fused_computation")).to_have_count(0)
    tabs.get_by_text("fused_computation", exact=True).click()
    expect(tabs.get_by_role("region", name="Lines of fused_computation")).to_contain_text("divide(")

    tabs.get_by_label("Search", exact=True).fill("ALL-REDUCE(")
    page.keyboard.press("Enter")
    expect(tabs.get_by_text("1 match for")).to_be_visible()
    matching = tabs.get_by_role("region", name="Matching lines")
    expect(matching.locator("mark")).to_have_text(["all-reduce("])
    expect(matching).to_contain_text("in main")
    mark = matching.locator("mark").evaluate("mark => getComputedStyle(mark).backgroundColor")
    # the viewer's own colour: its style is there
    assert mark not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 0)")
    tabs.get_by_label("Search", exact=True).fill("<b>.*</b>")
    page.keyboard.press("Enter")
    expect(tabs.get_by_text("No match for “<b>.*</b>”.")).to_be_visible()

    pick("Compare two")
    expect(tabs.get_by_text("Automatic has 1 all-reduce that Single device lacks")).to_be_visible()
    pick("Side by side")
    expect(tabs.get_by_role("region",
                            name="Automatic against Single device").locator(
                                ".cell-removed").first).to_be_visible()

    pick("Source lines")
    expect(tabs.get_by_text("all-reduce %all-reduce was made from line")).to_be_visible()
    expect(tabs.get_by_role("region",
                            name="Lines of layer_auto.py").locator(
                                ".row.strong")).to_contain_text("jnp.matmul(x, weights")
    pick("From a line to its ops")
    expect(tabs.get_by_role("region", name="Ops",
                            exact=True).locator(".row.strong")).to_contain_text("all-reduce(")


def test_a_line_that_communicates_leads_to_its_ops_in_the_viewer(page, finished_run):
    page.set_viewport_size({"width": 1600, "height": 900})
    visit(page, finished_run)
    answered(page)
    why = page.locator(".st-key-communication td").last
    # wider than Streamlit's own limit
    assert why.evaluate("cell => cell.firstElementChild.getBoundingClientRect().width") > 400
    page.get_by_role("button", name="shard_map, line").click()
    settled(page)
    tabs = page.get_by_test_id("stTabs")
    expect(tabs.get_by_role("tab", name="Programs")).to_have_attribute("aria-selected", "true")
    expect(tabs.get_by_role("region",
                            name="Lines of layer_shard_map.py").locator(
                                ".row.strong")).to_contain_text("jax.lax.psum(")
    expect(tabs.get_by_role("region", name="Ops",
                            exact=True).locator(".row.strong")).to_contain_text("all-reduce(")
    page.get_by_role("button", name="Automatic, line").click()
    settled(page)
    expect(tabs.get_by_role("region",
                            name="Lines of layer_auto.py").locator(
                                ".row.strong")).to_contain_text("jnp.matmul(x, weights")
    expect(page.get_by_test_id("stAlertContainer")).to_have_count(0)
