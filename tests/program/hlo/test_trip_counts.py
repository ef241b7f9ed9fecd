import pytest

from spmd_core.program import parse_module, trip_count

LOOP = """HloModule loop

%body (state: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %state = (s32[], f32[4]{{0}}) parameter(0)
  %index = s32[] get-tuple-element(%state), index=0
  %step = s32[] constant({step})
  %next = s32[] add(%index, %step)
  %value = f32[4]{{0}} get-tuple-element(%state), index=1
  ROOT %tuple = (s32[], f32[4]{{0}}) tuple(%next, %value)
}}

%condition (state.1: (s32[], f32[4])) -> pred[] {{
  %state.1 = (s32[], f32[4]{{0}}) parameter(0)
  %index.1 = s32[] get-tuple-element(%state.1), index=0
  %bound = s32[] constant({bound})
  ROOT %less = pred[] compare(%index.1, %bound), direction={direction}
}}

ENTRY %main (x: f32[4]) -> (s32[], f32[4]) {{
  %x = f32[4]{{0}} parameter(0)
  %start = s32[] {start}
  %copy = s32[] copy(%start)
  %begin = (s32[], f32[4]{{0}}) tuple(%copy, %x)
  ROOT %while = (s32[], f32[4]{{0}}) while(%begin), condition=%condition, body=%body{attribute}
}}
"""


def count(step=1, bound=5, direction="LT", start="constant(0)", attribute=""):
    module = parse_module(
        LOOP.format(step=step, bound=bound, direction=direction, start=start, attribute=attribute)
    )
    return trip_count(module, module.entry, module.entry.root)


@pytest.mark.parametrize(
    ("loop", "trips"),
    [
        ({}, 5),
        ({"start": "constant(2)"}, 3),
        ({"step": 2}, 3),
        ({"direction": "LE"}, 6),
        ({"step": -1, "bound": 0, "direction": "GT", "start": "constant(7)"}, 7),
        ({"step": -2, "bound": 0, "direction": "GE", "start": "constant(7)"}, 4),
        ({"bound": 0}, 0),
        ({"step": -1}, None),  # never ends by this condition
        ({"step": 0}, None),
        ({"direction": "NE"}, None),
        ({"start": "partition-id()"}, None),
        ({"attribute": ', backend_config={"known_trip_count":{"n":"9"}}'}, 9),
        ({"attribute": ', backend_config={"known_trip_count": {"n": 9}}'}, 9),
        (
            {
                "start": "partition-id()",
                "attribute": ', backend_config={"known_trip_count":{"n":"9"}}',
            },
            9,
        ),
    ],
)
def test_trips(loop, trips):
    assert count(**loop) == trips


def test_a_condition_inside_a_fusion():
    """As XLA's CPU compiler writes it."""
    text = LOOP.format(step=1, bound=5, direction="LT", start="constant(0)", attribute="")
    text = text.replace(
        "compare(%index.1, %bound), direction=LT",
        "fusion(%index.1, %bound), kind=kLoop, calls=%fused",
    )
    text = text.replace(
        "%next = s32[] add(%index, %step)",
        "%next = s32[] fusion(%index, %step), kind=kLoop, calls=%added",
    )
    text = text.replace(
        "HloModule loop\n",
        """HloModule loop

%fused (a: s32[], b: s32[]) -> pred[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

%added (a.1: s32[], b.1: s32[]) -> s32[] {
  %a.1 = s32[] parameter(0)
  %b.1 = s32[] parameter(1)
  ROOT %sum = s32[] add(%a.1, %b.1)
}
""",
    )
    module = parse_module(text)
    assert trip_count(module, module.entry, module.entry.root) == 5
