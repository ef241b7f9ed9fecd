"""Which collective a warning of full rematerialization is said of."""

import pytest

from spmd_core.facts import Collective
from spmd_core.program.communication.specs import REPLICATES, with_warnings

WARNING = (
    "The compiler found no efficient way (involuntary full rematerialization): [SPMD] "
    "Involuntary full rematerialization. The compiler cannot go from {a} to {b} for HLO "
    'operation %r = f32[2] reshape(%p), metadata={op_name="jit(f)/reshape"}'
)


def collective(kind, op, nbytes=8):
    return Collective(kind=kind, axes=("x",), bytes=nbytes, count=1, op=op)


@pytest.mark.parametrize(
    ("listed", "warned"),
    [
        (
            [
                collective("all-to-all", "jit(f)/reshape"),
                collective("all-gather", "jit(f)/reshape"),
            ],
            1,
        ),
        ([collective("all-gather", "jit(f)/dot"), collective("all-to-all", "jit(f)/reshape")], 1),
        ([collective("all-gather", "jit(f)/dot"), collective("all-gather", None, 9)], 1),
    ],
)
def test_the_collective_of_the_operation_that_is_named_is_warned_of(listed, warned):
    found = with_warnings(listed, ["Very slow compile", WARNING])
    assert [each.warning for each in found] == [
        REPLICATES if number == warned else None for number in range(len(listed))
    ]
    assert with_warnings(listed, ["Very slow compile"]) == tuple(listed)
