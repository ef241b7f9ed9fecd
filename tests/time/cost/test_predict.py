"""The walk through a schedule, and the prediction made of it, on a small module whose numbers are
known by hand.
"""

from pathlib import Path

import pytest

from spmd_core.facts import Prediction
from spmd_core.machine import get_topology
from spmd_core.program import parse_module
from spmd_core.time import ModuleCosts, Useful, predict
from spmd_core.time.cost.comm import Cluster, overlapping_order
from spmd_core.time.cost.flops import Matmul, matmul_s
from spmd_core.time.cost.links import gather_s, reduce_s, route
from spmd_core.time.cost.schedule import Walker
from spmd_core.words import in_sentences
from tests.time.cost.programs import LOOP

POD = get_topology("v5e:16x16")
PLACES = tuple((i, j, 0, 0, 0) for i in range(16) for j in range(16))
CLUSTER = Cluster(POD, PLACES)
MATMUL_S = matmul_s(Matmul(2 * 4096**3, "bf16", 1, 4096, 4096), POD.chip)
GATHER_S = gather_s(POD, route(POD, range(256), PLACES), 2 * 4096 * 4096)
MESH = (("fsdp", 256),)


def test_a_gather_is_counted_once_and_hides_under_the_matmul_beside_it():
    walk = Walker(ModuleCosts(parse_module(LOOP), CLUSTER)).entry()
    assert GATHER_S < MATMUL_S
    assert walk.seconds == pytest.approx(10 * 2 * MATMUL_S)
    ((comm, count, exposed),) = walk.tally.communications.values()
    assert (comm.kind, comm.nbytes, count, exposed) == ("all-gather", 2 * 4096 * 4096, 10, 0.0)
    assert walk.tally.flops == 10 * 2 * 2 * 4096**3


def test_a_synchronous_sum_holds_up_the_chip_and_a_synchronous_gather_need_not():
    """A sum needs the core; a gather that the compiler wrote synchronous, since a flag is off, may
    still run beside what does not use it.
    """
    plain = LOOP.replace(
        "fusion(%c0, %c1), kind=kCustom, calls=%done",
        "KIND, channel_id=8, replica_groups=[1,256]<=[256], to_apply=%start",
    )
    summed = Walker(
        ModuleCosts(parse_module(plain.replace("KIND", "all-reduce(%y)")), CLUSTER)
    ).entry()
    sum_s = reduce_s(POD, route(POD, range(256), PLACES), 2 * 4096 * 4096)
    assert summed.seconds == pytest.approx(10 * (2 * MATMUL_S + sum_s), rel=1e-6)
    assert summed.tally.blocking == pytest.approx(10 * sum_s)
    gathered = parse_module(plain.replace("KIND", "all-gather(%w)"))
    assert Walker(ModuleCosts(gathered, CLUSTER)).entry().seconds == pytest.approx(
        10 * 2 * max(MATMUL_S, GATHER_S), rel=0.05
    )
    assert (
        Walker(ModuleCosts(gathered, CLUSTER), literal=True).entry().seconds
        > 10 * (2 * MATMUL_S + GATHER_S) * 0.999
    )


def test_a_prediction_encloses_its_estimate_and_counts_what_is_useful():
    found = predict(
        LOOP,
        CLUSTER,
        # whose peak counts vector memory, too
        {"argument": 100, "temp": 50, "output": 10, "alias": 4, "peak_memory": 1150},
        MESH,
        Useful(flops=256 * 40 * 4096**3, tokens=256 * 1000),
    )
    assert found.fits
    assert found.predicted_s is not None
    assert found.predicted_s.low < found.predicted_s.estimate < found.predicted_s.high
    assert found.mfu == pytest.approx(40 * 4096**3 / 197e12 / found.predicted_s.estimate)
    assert found.tokens_per_s_per_chip == pytest.approx(1000 / found.predicted_s.estimate)
    assert (found.binds, found.collectives[0].axes, found.collectives[0].count) == (
        "compute",
        ("fsdp",),
        10,
    )
    # two rings, both ways round each
    assert found.collectives[0].bound_s == pytest.approx(2 * 4096 * 4096 * 255 / 256 / 2e11)
    assert (
        found.collectives[0].reason
        == "parameters are stored sharded over fsdp, but a matmul needs them replicated"
    )
    assert found.bounds_s is not None
    assert found.bounds_s.overlapped == pytest.approx(found.predicted_s.estimate)  # nothing waits
    assert found.bounds_s.sequential == pytest.approx(found.predicted_s.estimate + 10 * GATHER_S)
    assert found.collectives[0].route == "torus of x (16, ring) and y (16, ring)"
    assert found.memory_bytes.peak == 156
    assert sum(found.shares_s.values()) == pytest.approx(found.predicted_s.estimate, rel=1e-6)
    assert found.model_dump(mode="json")["timeline"] == []


def test_segments_that_an_older_version_stored_are_left():
    found = predict(LOOP, CLUSTER, {}, MESH)
    segment = {"track": "chip", "kind": "matmul", "name": "a", "start_s": 0.0, "duration_s": 1.0}
    old = found.model_dump(mode="json") | {"timeline": [segment]}
    assert Prediction.model_validate(old) == found


def test_a_loop_of_unknown_length_is_said():
    unknown = LOOP.replace("compare(%k, %twenty), direction=LT", "compare(%k, %k), direction=LT")
    found = predict(unknown, CLUSTER, {}, MESH)
    assert any(
        "how often loop loop runs is not in the program" in note
        for note in in_sentences(found).notes
    )


def test_the_compilers_own_order_is_told_where_it_is_worse():
    """With its start written just before its done, the gather hides under nothing."""
    late = LOOP.replace(
        "fusion(%b0, %b1, %x), kind=kOutput, calls=%async_collective_fusion.1",
        "fusion(%b0, %b1, %x), kind=kOutput, calls=%alone",
    )
    late = late.replace("%async_collective_fusion.1 (s", "%alone (s")
    order = ["  %begin", "  %b0", "  %b1"]
    lines = late.split("\n")
    moved = [line for line in lines if line.startswith(tuple(order))]
    rest = [line for line in lines if not line.startswith(tuple(order))]
    assert len(moved) == 3
    module = "\n".join(rest)
    module = module.replace(
        "fusion(%b0, %b1, %x), kind=kOutput, calls=%alone",
        "fusion(%w, %x, %x), kind=kOutput, calls=%alone",
    )
    module = module.replace("  %end = ", "\n".join(moved) + "\n  %end = ").replace(
        "fusion(%c0, %c1), kind=kCustom", "fusion(%b0, %b1), kind=kCustom"
    )
    found = predict(module, CLUSTER, {}, MESH)
    assert found.predicted_s is not None
    assert found.predicted_s.estimate == pytest.approx(10 * 2 * MATMUL_S, rel=1e-3)
    assert any("gave up overlapping" in note for note in in_sentences(found).notes)


def test_low_is_not_below_what_a_synchronous_sum_takes_at_nominal_bandwidth():
    """4096 x 8192 x 4096 in bfloat16, k over 8 chips: the sum of 32 MiB alone takes 0.587 ms, and
    comes after the product.
    """
    text = (
        Path(__file__).parents[2] / "program" / "hlo" / "summed_product_tpu_0.10.2.hlo"
    ).read_text()
    topology = get_topology("v5e:2x4")
    places = tuple((i, j, 0, 0, 0) for i in range(2) for j in range(4))
    found = predict(text, Cluster(topology, places), {}, (("x", 8),)).predicted_s
    product_s = 2 * 4096 * 8192 * 4096 / 8 / topology.chip.peak_flops
    # a line along x and one along y
    sum_s = 2 * 2 * 4096 * 4096 * (1 - 1 / 8) / (2 * topology.chip.link_bandwidth)
    assert sum_s == pytest.approx(0.587e-3, rel=1e-3)
    assert found is not None and product_s + sum_s <= found.low <= found.estimate <= found.high


def test_an_order_that_hides_communication_begins_with_what_it_waits_for():
    """The compiler wrote the long matmul first, and the sum of the other after it."""
    main = parse_module("""HloModule m

ENTRY %main (a: bf16[512,512], b: bf16[512,512]) -> bf16[512,512] {
  %a = bf16[512,512]{1,0} parameter(0)
  %b = bf16[512,512]{1,0} parameter(1)
  %long = bf16[512,512]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %short = bf16[512,512]{1,0} add(%a, %b)
  %moved = bf16[512,512]{1,0} collective-permute(%short), source_target_pairs={{0,1}}
  ROOT %both = bf16[512,512]{1,0} add(%long, %moved)
}
""").entry
    found, chain = overlapping_order(main, lambda each: float(each.opcode == "collective-permute"))
    assert (chain["short"], chain["long"]) == (1.0, 0.0)
    names = [each.name for each in found]
    assert names.index("moved") < names.index("long") and names[-1] == "both"
    assert sorted(names) == sorted(each.name for each in main.instructions)
