"""An answer in a notebook cell under a policy that forbids scripts and everything of the network."""

import pytest

from spmd_core.own.cell import page_of
from tests.cover import cover
from tests.own.test_cell import STEPS

# Texts that end outside of their picture, or lie over another one, and what the page is too wide by
PROBLEMS = """() => {
  const problems = [document.documentElement.scrollWidth > innerWidth ? 'page' : ''];
  for (const svg of document.querySelectorAll('svg')) {
    const inside = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(each => [each.textContent, each.getBoundingClientRect()]);
    boxes.forEach(([text, box], at) => {
      if (box.right > inside.right + 1 || box.bottom > inside.bottom + 1) problems.push(text);
      for (const [other, its] of boxes.slice(0, at))
        if (box.left < its.right - 1 && its.left < box.right - 1 && box.top < its.bottom - 3 && its.top < box.bottom - 3)
          problems.push(text + ' over ' + other);
    });
  }
  return problems.filter(Boolean); }"""


@pytest.mark.parametrize(("scheme", "width"), cover(["light", "dark"], [390, 1000]))
def test_no_text_is_clipped_on_a_light_or_a_dark_page(page, tmp_path, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    backs = set()
    for name, step in STEPS.items():
        file = tmp_path / f"{name}.html"
        file.write_text(page_of(step), encoding="utf-8")
        page.goto(file.as_uri())
        assert page.evaluate(PROBLEMS) == [] and refused == []
        backs.add(page.evaluate("getComputedStyle(document.body).color"))
    # what has no color of its own follows the page: black on white, white on black
    assert backs == {"rgb(0, 0, 0)" if scheme == "light" else "rgb(255, 255, 255)"}
