"""Commands and screens of questions of which no run is stored, and further views of stored runs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from spmd_core.experiment import link, parse_experiment, screen_of
from spmd_lab.ui import state
from tests.golden import screens

PROGRAM = "spmd_core/recipes/example.jaxexport"
LLAMA = "predict --model llama-3.1-8b --estimate --target tpu:v5p:4x4x4 --mesh fsdp=64"
SMALL = (
    "predict --model scaled:1 --estimate --target tpu:v5e:4x4 --mesh fsdp=16 --batch-per-device 2"
)
DAYS = "predict --model llama-3.1-8b --tokens"
# words of a command; each is printed as text and as JSON
COMMANDS = f"""
{LLAMA} --batch-per-device 4 --tokens 1e12 --price-per-chip-hour 4.2
{LLAMA} --batch-per-device 64 --remat none
{LLAMA.replace("=64", "=16,context=4")} --batch-per-device 1 --sequence 131072
{SMALL} --sweep chips=16,64,256,1024 --scaling weak
predict --model scaled:1 --estimate --target tpu:v5e:4x4 --mesh fsdp=16 --batch-per-device 64 --sweep chips=16,64,256,1024 --scaling strong
predict --model scaled:1 --estimate --target tpu:v5e:4x4 --batch-per-device 64 --sweep chips=16,64,4096 --scaling strong
{SMALL} --sweep generation=v5e,v5p,v6e --price-per-chip-hour 4.2
{SMALL} --sweep mesh=fsdp=16;fsdp=4,tensor=4
{SMALL} --sweep sequence=2048,8192,131072
predict --model mixtral-8x7b --target gpu:h100:8x8 --mesh fsdp=64 --batch-per-device 2 --estimate
predict --model llama-2-70b --target tpu:v5p:4x4x8 --mesh stage=8,fsdp=16 --batch-per-device 2 --microbatches 16 --estimate
{DAYS} 15e12 --target v5p --deadline 30d
{DAYS} 15e12 --target v5p,v6e,h100 --budget 2e6 --price-per-chip-hour 4.2
{DAYS} 1e12 --target v5p,v6e,h100 --chips 256 --global-batch 512
{DAYS} 15e12 --target v5e --deadline 1d
serve --model qwen3-32b --chips v6e:..16,h100:..8 --price v6e=2.7,h100=4 --tpot 40ms
serve --model llama-3.1-70b --chips h100:..16 --apart --tpot 40ms
serve --model qwen3-8b --chips v6e:8 --sweep concurrency=8,64,256
serve --model qwen3-8b --chips v6e:..8 --rate 4 --input 512..2048 --output 64..512 --ttft 1s
serve --model llama-3.1-70b --chips v5e:2
serve --model deepseek-v3-671b --chips h100:16 --tpot 40ms
serve --model llama-3.1-70b --chips v5e:8,h100:4 --weights-dtype fp8,int8 --kv-dtype int8
serve --model qwen3-8b --chips v6e:1 --concurrency 4096
serve --model qwen3-8b --chips v6e:4 --ttft 10ms --tpot 1ms
serve --model llama-3.1-70b --chips h100:..16 --apart --ttft 1ms --tpot 1ms
serve --model gpt-oss-120b --chips v5e:4,h100:4 --weights-dtype mxfp4
serve --model qwen3-8b --chips v6e:4 --mesh data=2,tensor=2 --rate 2 --requests 64 --ttft 10ms
serve --model qwen3-8b --chips v6e:4 --accepted 2.5 --chunk 512 --sweep chips=v6e:4;v6e:8
{DAYS} 15e12 --target v5p,v6e,h100 --deadline 60d --price-per-chip-hour 4.2
{LLAMA} --batch-per-device 4 --offload query,key
predict --model llama-2-70b --estimate --target tpu:v5e:16x16 --mesh fsdp=256 --batch-per-device 1 --sweep chips=64,256 --scaling weak
{LLAMA} --batch-per-device 8 --sweep chips=64,4096,8192 --scaling weak
{LLAMA.replace("fsdp=64", "fsdp=4,tensor=16")} --batch-per-device 1 --sweep chips=64,256
serve --model deepseek-v3-671b --chips h200:16 --tpot 60ms
history --workload layer
history --text fsdp=16 --limit 3
history --text nosuchthing
layout --mesh x=2,y=4 --shape 8,8 --spec [["x","y"],null,"y"]
layout --mesh x=16,y=16 --shape 512,8 --spec ["x",null]
script recipe:layer
link recipe:layer
collection list
layout --mesh x=2,y=4 --shape 8,8 --spec [["x","y"],null]
""".strip().splitlines()
# of searches, each of which is opened in a folder of its own
SEARCHES = (
    "search --model llama-3.1-70b --chips v5e:4 --no-compile --global-batch 8 --remat full --no-offload",
)
PLAN = {"workload": "decoder", "strategies": ["auto"], "target": "tpu:v5p:4x4x4"}
PLAN |= {"mesh": {"fsdp": 64}, "dims": {"batch": 256, "sequence": 4096}}
PLAN |= {"options": {"model": "llama-3.1-8b", "remat": "full"}}
# as it was compiled in some of the stored runs
SMALL_PLAN = {"workload": "decoder", "strategies": ["auto"], "target": "tpu:v5e:4x4"}
SMALL_PLAN |= {"mesh": {"fsdp": 16}, "dims": {"batch": 32, "sequence": 2048}}
SMALL_PLAN |= {"options": {"model": "scaled:1", "remat": "full"}}
CONTEXT = PLAN | {"mesh": {"fsdp": 16, "context": 4}, "dims": {"batch": 16, "sequence": 131072}}
ARRAY = {"workload": "array", "target": "cpu:8", "mesh": {"x": 2, "y": 4}}
# (page, spec, query)
SCREENS: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (
    ("predict", PLAN, {}),
    ("predict", PLAN, {"tokens": "1000", "price": "4.2"}),
    ("predict", PLAN, {"days": "30", "tokens": "15000"}),
    ("predict", PLAN, {"dollars": "2000000", "tokens": "1000", "price": "4.2"}),
    ("predict", PLAN, {"show": "sweep", "sweep": "chips=16,64", "scaling": "strong"}),
    ("predict", PLAN, {"show": "sweep", "sweep": "chips=16,64", "meshes": "best"}),
    ("predict", PLAN, {"show": "sweep", "sweep": "generation=v5e,v5p,v6e", "price": "4.2"}),
    ("predict", PLAN, {"show": "sweep", "sweep": "sequence=2048,8192,32768"}),
    ("predict", CONTEXT, {"price": "3"}),
    ("predict", PLAN | {"target": "tpu:v5e:2x2", "mesh": {"fsdp": 4}}, {}),
    ("layout", ARRAY | {"dims": {"d0": 16, "d1": 8}, "sharding": {"d0": "x"}}, {}),
    *(
        ("layout", ARRAY | {"dims": {"d0": 16, "d1": 8}, "sharding": sharding}, query)
        for sharding, query in (
            ({"d0": "x"}, {"to": "[null,'y']", "element": "3,2"}),
            ({"d0": "x"}, {"to": "P(None, 'y')", "element": "3,2"}),
            ({"d0": ["x", "y"]}, {"to": "P()"}),
            ({"d0": "x"}, {"to": "P(None, 'x')"}),
            ({"d0": "x"}, {"to": "P(('x', 'y'))"}),
            ({"d0": ["x", "y"]}, {"to": "P(('y', 'x'))"}),
            ({"d1": "y"}, {"to": "P('y')"}),
        )
    ),
    *(
        ("layout", ARRAY | {"target": target, "mesh": mesh, "dims": dims, "sharding": sharding}, to)
        for target, mesh, dims, sharding, to in (
            (
                "tpu:v5p:4x4x4",
                {"x": 16, "y": 4},
                {"d0": 1024, "d1": 256, "d2": 8},
                {"d1": "y"},
                {"to": "P('x', None, 'y')"},
            ),
            ("tpu:v5e:8x8", {"x": 8, "y": 8}, {"d0": 64, "d1": 4096}, {"d0": "x"}, {}),
        )
    ),
    *(
        (
            "layout",
            {"workload": workload, "target": "cpu:8", "mesh": {"x": 2, "y": 4}, "dims": dims}
            | {"sharding": sharding},
            {},
        )
        for workload, dims, sharding in (
            ("matmul", {}, {}),
            ("matmul", {"m": 512, "k": 512, "n": 256}, {"m": "x", "k": "y"}),
            ("contraction", {"rows": 512, "cols": 64}, {"cols": "x"}),
            ("layer", {"batch": 256, "in": 256, "out": 128}, {"in": "x", "out": "y"}),
            ("dot", {}, {"n": "x"}),
        )
    ),
)
STUDY, LARGE, SMALLER = "20261124-174251-0dcdaf", "20261124-173714-cdc495", "20261124-173703-9ed8b8"
_KEPT = state._durable("predict", "aside.variant")
_TICKED = state._durable("history", "aside.ticked")
# of a stored run: its query, and the run that the session holds beside it as a variant
OF_RUNS: tuple[tuple[str, dict[str, str], str], ...] = (
    *(
        ("20261124-173534-6893dc", {"tab": "Details", "detail": table}, "")
        for table in ("Layouts", "Phases", "Memory", "Samples", "Machine")
    ),
    *(
        (run, {"tab": "From which size"}, "")
        for run in ("20261124-175327-75b73d", "20261124-175322-7e556d")
    ),
    *(("20261124-173709-77837b", {"tab": tab}, "") for tab in ("Arrows", "Memory", "Beside")),
    ("20261124-180114-6a0435", {"tab": "Memory"}, ""),
    ("20261124-173657-9126a7", {"tab": "Beside", "with": SMALLER}, ""),
    ("20261124-173657-9126a7", {}, SMALLER),
    (LARGE, {}, SMALLER),
    ("20261124-174203-1735d2", {"tab": "Why"}, ""),
    (SMALLER, {"tab": "Memory"}, ""),
    (STUDY, {"tab": "Why"}, ""),
    (STUDY, {"run": ""}, ""),
    (STUDY, {"run": "", "price": "v5e=1.2"}, ""),
)
# a plan, and a sweep of it whose every curve is drawn
CURVES: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
    (PLAN, {"sweep": "chips=16,64", "scaling": "strong"}),
    (PLAN, {"sweep": "generation=v5e,v5p,v6e", "price": "4.2"}),
    (PLAN | {"mesh": {"fsdp": 16, "tensor": 4}}, {"sweep": "sequence=2048,8192,131072"}),
    (SMALL_PLAN, {"sweep": "chips=8,16,64"}),
    (SMALL_PLAN, {"sweep": "mesh=fsdp=16;fsdp=4,tensor=4"}),
)
# (page, query, what the session holds)
HELD: tuple[tuple[str, dict[str, str], dict[str, Any]], ...] = (
    ("history", {"view": "Predicted beside measured"}, {}),
    ("history", {"view": "Table"}, {}),
    ("history", {"workload": "layer"}, {_TICKED: ["20261124-173534-6893dc", LARGE]}),
    ("history", {}, {_TICKED: [LARGE]}),
    ("history", {"search": "layer x=8 foo:bar"}, {}),
    ("history", {"search": "tag:layer is:pinned all-gather all-reduce"}, {}),
    ("history", {"search": "tag:layer"}, {}),
    ("history", {"runs": LARGE}, {}),
    ("history", {"runs": f"{LARGE},{SMALLER},20261124-173657-9126a7"}, {}),
    ("history", {"runs": "a,b,c,d,e,f"}, {}),
)


# page -> queries of a stored run, beside the tabs
FURTHER: dict[str, tuple[dict[str, str], ...]] = {
    "predict": (
        {"measured": "12"},
        {"tokens": "1000", "price": "2"},
        {"tab": "Arrows", "arrows": "all"},
    ),
    "compare": ({"tab": "Why", "arrows": "all", "once": "true"},),
    "collectives": ({"kind": "all-reduce"}, {"view": "Time"}),
}


def views(runs) -> Iterator[tuple[str, Any]]:
    """Name and rendering of each screen."""
    for page, spec, query in SCREENS:
        asked = {"experiment": link.encode(parse_experiment(spec))} | query
        name = f"{page} {spec['target']} {spec.get('sharding', '')} {query}"
        yield f"asked-screen/{name}", partial(screens.lines_of, page, asked)
    firsts: dict[tuple[object, ...], Any] = {}
    done = [each for each in runs if each.state == "succeeded"]
    for each in done:
        what, page = each.experiment, screen_of(each.experiment)
        firsts.setdefault((page, what.workload, what.place.is_absent, bool(what.variants)), each)
    for (page, workload, *_), each in firsts.items():
        query = {"experiment": link.encode(each.experiment), "run": each.run}
        for more in FURTHER.get(str(page), ()):
            name = f"asked-screen/{each.run} {workload} {more}"
            yield name, partial(screens.lines_of, str(page), query | more)
    for spec, more in CURVES:
        query = {"experiment": link.encode(parse_experiment(spec)), "show": "sweep"} | more
        screen = partial(screens.lines_of, "predict", query, {"curves": True})
        yield f"asked-screen/curves {spec['target']} {more}", screen
    by_id = {each.run: each for each in runs}
    for run, more, kept in OF_RUNS:
        each = by_id[run]
        query = {"experiment": link.encode(each.experiment), "run": run} | more
        held = {_KEPT: by_id[kept].experiment} if kept else {}
        screen = partial(screens.lines_of, screen_of(each.experiment), query, held)
        yield f"asked-screen/{run} {more} {kept}", screen
    for page, query, held in HELD:
        yield f"asked-screen/{page} {query} {held}", partial(screens.lines_of, page, query, held)
    beside = {"runs": ",".join(each.run for each in done[:3]), "baseline": done[1].run}
    for query in ({"workload": "layer", "columns": "Mesh"}, beside):
        yield f"asked-screen/history {query}", partial(screens.lines_of, "history", query)
