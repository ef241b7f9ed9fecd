"""Links: round trips, size, and everything that a link must not be able to do."""

import base64
import json
import zlib

import pytest
from hypothesis import given, strategies as st

from spmd_core.base import RequestError
from spmd_core.experiment import MAX_TEXT_BYTES, parse_experiment, shrink
from spmd_core.experiment.link import (
    MAX_LINK_CHARACTERS,
    decode,
    encode,
    link_path,
    looks_like_link,
    parse_link,
)
from spmd_core.experiment.nearest import nearest
from tests.specs import BIG_SPEC, experiments

LAYER = {"workload": "layer", "mesh": {"x": 8}, "sharding": {"in": "x"}, "target": "cpu:8"}


def code_of(data: bytes, *, version: str = "1", wbits: int = zlib.MAX_WBITS) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return f"{version}." + base64.urlsafe_b64encode(packer.compress(data) + packer.flush()).decode()


@given(experiments())
def test_every_experiment_survives_its_link(experiment):
    assert decode(encode(experiment)) == experiment
    full = "http://127.0.0.1:8501" + link_path(experiment, run="0123456789abcdef")
    assert len(full) < MAX_LINK_CHARACTERS
    assert decode(full) == experiment and parse_link(full).run == "0123456789abcdef"


def test_the_largest_experiments_fit_into_a_link():
    experiment = parse_experiment(BIG_SPEC)
    assert decode(encode(experiment)) == experiment
    assert (
        len(
            "https://a-rather-long-host-name.example.org:8501" + link_path(experiment, run="f" * 32)
        )
        < MAX_LINK_CHARACTERS
    )


def test_defaults_are_left_out_and_what_differs_between_machines_is_not():
    code = encode(parse_experiment(LAYER))
    data = json.loads(
        zlib.decompress(base64.urlsafe_b64decode(code[2:] + "=" * (-len(code[2:]) % 4)))
    )
    assert data == {
        "target": "cpu:8",
        "mesh": [["x", 8]],
        "workload": "layer",
        "dims": {"in": 32, "out": 4},
        "sharding": {"in": "x"},
        "strategies": ["single", "auto", "constrained", "shard_map"],
    }


@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
def test_links_made_elsewhere_are_read(wbits):
    code = code_of(json.dumps(LAYER).encode(), wbits=wbits)
    for text in (
        code,
        code.rstrip("="),
        f"experiment={code}",
        f"?run=r1&experiment={code}",
        f"/compare?experiment={code}",
        f"  https://h/layout?experiment={code}#top\n",
    ):
        assert decode(text) == parse_experiment(LAYER)


def test_the_parts_of_a_link():
    link = parse_link("http://h:8501/compare?experiment=1.abc&run=r-1")
    assert (link.code, link.screen, link.run) == ("1.abc", "compare", "r-1")
    assert parse_link("http://h/?experiment=1.abc&run=<script>").run is None
    assert parse_link("1.abc").screen is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not one of SPMD Lab"),
        ("hello", "is not one of SPMD Lab"),
        ("x" * 10_000_000, "link of 10000000 characters is longer than 2000"),
        ("http://h/compare?experiment=" + "x" * 10_000_000, "is longer than 2000"),
        ("2.abc", "link of version 2 cannot be read by this version of SPMD Lab: update it"),
        ("1.", "is damaged or truncated"),
        ("1.abcde", "is damaged or truncated"),
        ("1.====", "is damaged or truncated"),
        ("1.AAAA", "is damaged or truncated"),
        ("http://[broken/?experiment=1.abc", "is not a web address"),
        ("http://h/compare?experiment=", "is not one of SPMD Lab"),
        (code_of(b"not json"), "holds no experiment"),
        (code_of(b'{"workload": NaN}'), "holds no experiment"),
        (code_of(b"[1, 2]"), "is not a JSON object"),
        (code_of(b"[" * 60_000), "holds no experiment"),
        (code_of(json.dumps(LAYER).encode())[:-9], "is damaged or truncated"),
        (code_of(b" " * (MAX_TEXT_BYTES + 1)), "inflates to more than 64 KiB"),
        (code_of(b" " * 10_000_000), "inflates to more than 64 KiB"),
        (
            code_of(json.dumps(LAYER | {"mesh": {"<script>alert(1)</script>": 8}}).encode()),
            "is not a name",
        ),
        (
            code_of(json.dumps(LAYER | {"version": 2}).encode()),
            "version 2 of the experiment format is not known here",
        ),
    ],
)
def test_bad_links_are_refused_in_one_sentence(text, words):
    with pytest.raises(RequestError, match=r"^[^\n]{1,300}$") as caught:
        decode(text)
    assert words in str(caught.value)


def test_a_bomb_is_refused_without_inflating_it():
    bomb = zlib.compressobj(9)
    packed = b"".join(bomb.compress(bytes(2**20)) for _ in range(11)) + bomb.flush()
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(RequestError, match="inflates to more than 64 KiB"):
        decode("1." + base64.urlsafe_b64encode(packed).decode())
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@given(st.text() | st.from_regex(r"\A1\.[A-Za-z0-9_=-]*\Z") | st.binary().map(code_of))
def test_any_text_is_an_experiment_or_one_sentence(text):
    try:
        decode(text)
    except RequestError as error:
        assert "\n" not in str(error)


def test_links_and_file_names_are_told_apart():
    assert looks_like_link("1.eJyrVg") and looks_like_link("http://h/compare?experiment=1.a")
    assert not looks_like_link("spec.json") and not looks_like_link("-")


def test_what_fits_is_left_alone():
    assert nearest(LAYER, 8) == (parse_experiment(LAYER), ())
    assert nearest(parse_experiment(LAYER).to_json(), None) == (parse_experiment(LAYER), ())


def test_a_mesh_too_large_shrinks_and_says_so():
    experiment, changes = nearest(LAYER | {"target": "local"}, 4)
    assert experiment.mesh == (("x", 4),) and experiment.target == "local"
    assert changes == ("Mesh x=8 has 8 devices and local has 4: x=4 is used.",)


def test_another_target_is_said():
    experiment, changes = nearest(
        LAYER | {"target": "local", "mesh": {"x": 2, "y": 8}}, None, "cpu:8"
    )
    assert experiment.target == "cpu:8" and experiment.mesh == (("x", 2), ("y", 4))
    assert (
        changes[0] == "The target local is not on this machine: cpu:8 is used."
        and len(changes) == 2
    )


@pytest.mark.parametrize(
    ("change", "field", "wanted", "words"),
    [
        ({"sharding": {"in": "z"}}, "sharding", (), "Mesh axis 'z' is not in the mesh"),
        (
            {"sharding": {"out": "x", "in": ["x", "z"]}, "dims": {"in": 32, "out": 8}},
            "sharding",
            (("out", ("x",)),),
            "The sharding of in is left out.",
        ),
        (
            {"sharding": {"in": ["x", "x"]}},
            "sharding",
            (),
            "Mesh axis 'x' is used twice on dim in",
        ),
        (
            {"sharding": {"in": "x", "out": "x"}, "dims": {"in": 32, "out": 8}},
            "sharding",
            (("in", ("x",)),),
            "shards both in and out of weights",
        ),
        ({"sharding": {"rows": "x"}}, "sharding", (), "Sharding of 'rows' names no dim of layer"),
        ({"sharding": 7}, "sharding", (), "sharding=7 is not an object"),
        (
            {"dims": {"in": 30, "out": 4}},
            "dims",
            (("in", 32), ("out", 4)),
            "in=30 does not divide over x=8: in=32 is used.",
        ),
        (
            {"dims": {"in": 33, "out": 4}},
            "dims",
            (("in", 32), ("out", 4)),
            "in=33 does not divide over x=8",
        ),
        ({"dims": {"in": -1}}, "dims", (("in", 32), ("out", 4)), "in=-1 is not a size"),
        (
            {"dims": {"in": 32, "depth": 4}},
            "dims",
            (("in", 32), ("out", 4)),
            "layer has no dim 'depth'",
        ),
        ({"overrides": {"weights": ["x"]}}, "overrides", (), "does not fit its rank 2"),
        ({"overrides": {"w": ["x"]}}, "overrides", (), "The override of w is left out."),
        (
            {"overrides": {"bias": ["x"]}},
            "dims",
            (("in", 32), ("out", 8)),
            "out=4 does not divide over x=8",
        ),
        (
            {"memory": {"weights": "tape"}},
            "memory",
            (),
            "Memory of 'weights'='tape' is not a choice",
        ),
        ({"data": {"y": "ones"}}, "data", (), "Data of 'y' names no array of layer"),
        ({"dtype": "int32"}, "dtype", "float32", "Dtype int32 makes no sense for layer"),
        (
            {"strategies": ["auto", "pjit"]},
            "strategies",
            ("auto",),
            "Strategy 'pjit' is not one of layer",
        ),
        (
            {"strategies": ["pjit"]},
            "strategies",
            ("single", "auto", "constrained", "shard_map"),
            "No strategy is left",
        ),
        (
            {"options": {"precision": "utmost"}},
            "seed",
            0,
            "Option precision is left out.",
        ),
        ({"timing": {"samples": 0}}, "seed", 0, "samples=0 is not a whole number from 1 to 1000"),
        ({"seed": -1}, "seed", 0, "seed=-1 is not a seed"),
        ({"colour": "red"}, "seed", 0, "The field 'colour' is not part of an experiment"),
        ({"target": "moon"}, "workload", "layer", "Target 'moon' is not a place to run"),
    ],
)
def test_what_does_not_fit_is_repaired_and_said(change, field, wanted, words):
    experiment, changes = nearest(LAYER | change, None)
    assert getattr(experiment, field) == wanted
    assert len([sentence for sentence in changes if words in sentence]) == 1, changes


def test_repair_of_an_array_fills_gaps():
    experiment, changes = nearest(
        {"workload": "array", "mesh": {"x": 2}, "dims": {"d1": 8}, "target": "cpu:8"}, None
    )
    assert experiment.dims == (("d0", 1), ("d1", 8)) and changes == (
        "d0 is skipped: d0=1 is used.",
    )


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"workload": "layer"},
        {"workload": "nothing", "mesh": {"x": 2}},
        LAYER | {"version": 2},
        LAYER | {"mesh": {"x": 0}},
    ],
)
def test_what_cannot_be_repaired_is_refused(data):
    with pytest.raises(RequestError):
        nearest(data, None)


@given(experiments(), st.integers(1, 16))
def test_the_nearest_always_fits(experiment, devices):
    fitted, changes = nearest(experiment.to_json(), devices)
    assert fitted.device_count <= devices
    assert bool(changes) == (fitted != experiment)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10**6), min_size=1), st.integers(1, 300)
)
def test_a_shrunken_mesh_keeps_its_axes_and_fits(mesh, available):
    smaller = shrink(mesh, available)
    count = 1
    for axis, size in smaller.items():
        assert 1 <= size <= mesh[axis]
        count *= size
    assert list(smaller) == list(mesh) and count <= available


def test_an_experiment_on_absent_tpus_is_shown_where_it_is_predicted():
    assert link_path(
        parse_experiment({"workload": "layer", "target": "tpu:v5e:4x4", "mesh": {"x": 16}})
    ).startswith("/predict?experiment=1.")
    assert link_path(
        parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    ).startswith("/compare?experiment=1.")
