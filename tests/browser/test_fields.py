"""Fields: bad entries lose nothing, names are never markup, and the screens keep what they were
given.
"""

from playwright.sync_api import expect

from bench.browser import fields_say, screen_text, settled, unfold, visit

MARKUP = '<img src=x onerror="document.title=1">'


def enter(page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).first.fill(value)
    page.keyboard.press("Enter")


def test_a_bad_entry_is_one_sentence_and_nothing_is_lost_while_another_screen_is_visited(
    link, page
):
    visit(page, link())
    before = page.url
    unfold(page, "Sizes", "Mesh")
    enter(page, "out", "12")
    page.wait_for_url(lambda url: url != before)  # the experiment has taken it over
    settled(page)
    enter(page, "Axis 1 size", "5")
    page.get_by_text(
        "in=32 does not divide over mesh axis x=5: use in=30 or 35, x=4, or leave in unsharded"
    ).wait_for()
    fields_say(page, **{"in": "32", "out": "12", "Axis_1_size": "5"})
    settled(page)
    page.get_by_test_id("stPageLink").get_by_text("Recipes").click()
    page.wait_for_url("**/recipes")
    page.get_by_test_id("stPageLink").get_by_text("Compare", exact=True).first.click()
    page.wait_for_url("**/compare?experiment=*")
    fields_say(page, out="12", Axis_1_size="5")


def test_a_renamed_axis_takes_its_sharding_along_and_html_in_a_name_is_text(server, page):
    visit(page, f"{server.url}/compare")
    unfold(page, "Mesh")
    enter(page, "Axis 1 name", "model")
    page.get_by_test_id("stSidebar").get_by_text("model", exact=True).first.wait_for()
    assert "is not in the mesh" not in screen_text(page)
    enter(page, "Axis 1 name", MARKUP)
    page.get_by_text("is not a name").wait_for()
    page.get_by_text("<img src=x").first.wait_for()
    visit(page, f"{server.url}/history?search=%3Cimg%20src%3Dx%3E&run=%3Cimg%20src%3Dx%3E")
    assert page.locator("img[src=x]").count() == 0
    expect(page).to_have_title("History · SPMD Lab")


def test_fields_that_the_browser_draws_late_hold_what_the_link_says(link, page):
    """A rerun comes before the code of the fields has been loaded, as on a slow line."""
    held = []
    for name in ("*Input*", "*elect*"):
        page.route(f"**/static/js/{name}.js", lambda route: held.append(route))
    visit(
        page, link(mesh={"rows": 2, "cols": 4}, sharding={"in": "cols"}, dims={"in": 64, "out": 6})
    )
    page.get_by_role("button", name="Share").click()
    page.get_by_test_id("stPopoverBody").locator("code").wait_for()
    settled(page)
    assert held
    for route in held:
        route.continue_()
    fields_say(
        page,
        **{
            "Workload": "Dense layer",
            "Axis_1_name": "rows",
            "Axis_2_size": "4",
            "in": "64",
            "out": "6",
        },
    )
