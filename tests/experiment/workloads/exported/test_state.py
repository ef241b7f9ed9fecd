"""Which arguments of a program are parameters, and which an optimizer keeps for them."""

from spmd_core.experiment import Leaf
from spmd_core.experiment.workloads.exported.state import owners, replaced


def leaves(*paths):
    return [Leaf(path=path, sizes=("8", "4"), dtype="float32") for path in paths]


def test_outputs_of_the_same_paths_replace_arguments_in_order_parameters_first():
    arguments = leaves("m/up", "m/down", "params/up", "params/down")
    outputs = leaves("0/up", "0/down", "1/up", "1/down", "2")
    found = list(replaced(arguments, outputs))
    assert found == ["params/up", "params/down", "m/up", "m/down", None]
    named = list(replaced(arguments, leaves("output/m/up", "output/params/up")))
    assert named == ["m/up", "params/up"]


def test_an_optimizer_keeps_what_ends_as_a_parameter():
    for parameter, kept in (
        ("params/attn/v/kernel", "opt_state/0/mu/attn/v/kernel"),
        ("params/attn/v/kernel", "m/attn/v/kernel"),
        ("state/params/Dense_0/kernel", "state/opt_state/0/nu/Dense_0/kernel"),
        ("state/0/a/kernel/value", "state/1/opt_state/0/mu/a/kernel/value"),
    ):
        other = parameter.replace("v", "k").replace("Dense_0", "Dense_1").replace("/a/", "/b/")
        assert owners(leaves(other, kept, parameter)) == {kept: parameter}
