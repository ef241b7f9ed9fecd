"""Commands and screens of questions of which no run is stored, and further views of stored runs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from spmd_core.experiment import link, parse_experiment, screen_of
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
layout --mesh x=2,y=4 --shape 8,8 --spec [["x","y"],null]
""".strip().splitlines()
PLAN = {"workload": "decoder", "strategies": ["auto"], "target": "tpu:v5p:4x4x4"}
PLAN |= {"mesh": {"fsdp": 64}, "dims": {"batch": 256, "sequence": 4096}}
PLAN |= {"options": {"model": "llama-3.1-8b", "remat": "full"}}
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
    ("predict", PLAN | {"target": "tpu:v5e:2x2", "mesh": {"fsdp": 4}}, {}),
    ("layout", ARRAY | {"dims": {"d0": 16, "d1": 8}, "sharding": {"d0": "x"}}, {}),
    (
        "layout",
        ARRAY | {"dims": {"d0": 16, "d1": 8}, "sharding": {"d0": "x"}},
        {"to": '[null,"y"]', "element": "3,2"},
    ),
    (
        "layout",
        ARRAY | {"dims": {"d0": 16, "d1": 8}, "sharding": {"d0": ["x", "y"]}},
        {"to": "[null,null]"},
    ),
    ("layout", {"workload": "matmul", "target": "cpu:8", "mesh": {"x": 2, "y": 4}}, {}),
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
    beside = {"runs": ",".join(each.run for each in done[:3]), "baseline": done[1].run}
    for query in ({"workload": "layer", "columns": "Mesh"}, beside):
        yield f"asked-screen/history {query}", partial(screens.lines_of, "history", query)
