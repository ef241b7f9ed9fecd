"""Colors of the theme: rows are told apart by people who see fewer colors, and all text is legible."""

import itertools
import re
import tomllib

import numpy as np
import pytest

from bench.values import result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.reports.html import _STYLE
from spmd_core.reports.run_document import times_chart
from spmd_lab.ui.charts import colors
from tests.layers import ROOT

THEME = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text("utf-8"))["theme"]
# Machado, Oliveira and Fernandes 2009, table 1 at severity 1.0: of linear RGB
SEEN = {
    "all colors": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
APART = 12.0  # CIE76; 2.3 is just noticeable side by side
WHITE = np.array([0.9505, 1.0, 1.089])
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def linear(color):
    """Linear RGB of `#rrggbb`."""
    parts = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB."""
    xyz = np.array(TO_XYZ) @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    """WCAG's ratio of two colors."""
    dark, light = sorted(float(np.array(TO_XYZ[1]) @ linear(each)) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


def nearest(colors, seen):
    """The least distance of two of these colors as somebody sees them."""
    each = [lab(np.array(seen) @ linear(color)) for color in colors]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(each, 2))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("seen", SEEN)
def test_rows_are_told_apart(theme, seen):
    assert nearest(THEME[theme]["chartCategoricalColors"], SEEN[seen]) >= APART


def test_colors_that_one_kind_of_blindness_confuses_are_found():
    assert nearest(["#d9730d", "#8a8a00"], SEEN["no green"]) < APART
    assert nearest(["#d9730d", "#8a8a00"], SEEN["all colors"]) > APART


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_have_enough_contrast(theme):
    """WCAG 2.1 AA: 4.5 of text, 3 of large text and of marks."""
    colors = THEME[theme]
    quiet = {"light": "#4f5b6b", "dark": "#a9b5c4"}[theme]  # of captions, in the style sheet
    style = (ROOT / "spmd_lab" / "ui" / "style.py").read_text("utf-8")
    assert "--quiet: light-dark(#4f5b6b, #a9b5c4)" in style
    for ground in (colors["backgroundColor"], colors["secondaryBackgroundColor"]):
        for color in (colors["textColor"], colors["linkColor"], colors["primaryColor"], quiet):
            assert contrast(color, ground) >= 4.5, (color, ground)
        for color in colors["chartCategoricalColors"]:
            assert contrast(color, ground) >= 3, (color, ground)


def test_reports_have_the_colors_of_the_screens():
    light, dark = (THEME[each]["chartCategoricalColors"] for each in ("light", "dark"))
    assert re.findall(r"--c\d:(#\w{6})", _STYLE) == [*light, *dark]


def test_a_row_has_its_color_on_screens_and_in_reports():
    layer = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}}
    one = parse_experiment(layer | {"strategies": ["single", "auto", "shard_map"]})
    assert [one.palette_place(row.key) for row in one.rows] == [7, 0, 1]
    assert colors.css(one, "single") == "var(--row-7)"
    study = parse_experiment(
        {"study": [{"name": name, "experiment": layer | {"strategies": ["auto"]}} for name in "ab"]}
    )
    assert [study.palette_place(row.key) for row in study.rows] == [0, 1]
    found = result({name: strategy(1e-5) for name in ("auto", "single")})
    chart = times_chart(found)
    assert chart is not None
    assert {bar.label: bar.group for bar in chart.bars} == {"Automatic": 0, "Single device": 7}
