"""The workload of a training step: gradient descent of one layer, or of two."""

from dataclasses import replace

from spmd_core.experiment.fields import Choice, Integer
from spmd_core.experiment.workloads.strategies import ALL_STRATEGIES
from spmd_core.experiment.workloads.workload import FLOATS, Array, Dims, Program, Training, Workload


def _linear_flops(sizes: Dims) -> int:
    """The product and its gradient; the loss; the step."""
    batch, terms, out = (sizes[dim] for dim in ("batch", "in", "out"))
    return 4 * batch * terms * out + 7 * batch * out + 2 * out * (terms + 1)


def _two_layer_flops(sizes: Dims) -> int:
    """The products and their gradients; the loss and the relu; the step."""
    batch, terms, hidden, out = (sizes[dim] for dim in ("batch", "in", "hidden", "out"))
    products = 4 * batch * terms * hidden + 6 * batch * hidden * out
    step = 2 * (hidden * (terms + 1) + out * (hidden + 1))
    return products + 7 * batch * (hidden + out) + step


_LINEAR = (("weights", ("in", "out")), ("bias", ("out",)))
_TWO_LAYER = (
    ("w1", ("in", "hidden")),
    ("b1", ("hidden",)),
    ("w2", ("hidden", "out")),
    ("b2", ("out",)),
)
Parameters = tuple[tuple[str, tuple[str, ...]], ...]  # (name, dims)


def _operands(parameters: Parameters) -> tuple[Array, ...]:
    return (
        Array("x", ("batch", "in")),
        Array("target", ("batch", "out")),
        *(Array(name, dims) for name, dims in parameters),
    )


def _results(parameters: Parameters) -> tuple[Array, ...]:
    return (Array("loss", ()), *(Array(f"new_{name}", dims) for name, dims in parameters))


def _fed_back(parameters: Parameters) -> Training:
    return Training(carried=tuple((f"new_{name}", name) for name, _ in parameters), curve="loss")


def _train_step() -> Workload:
    prediction = Array("prediction", ("batch", "out"))
    program = Program(
        function="linear_step",
        between=(prediction,),
        derived=(("target", "teacher", ("x", "target")),),
        constants={"LEARNING_RATE": 0.2},
    )
    linear = Workload(
        name="train_step",
        title="Training step",
        formula="gradient descent on the mean squared error of x @ weights + bias, or of two "
        "layers",
        dims=("batch", "in", "out"),
        defaults={"batch": 256, "in": 32, "out": 8},
        operands=_operands(_LINEAR),
        results=_results(_LINEAR),
        flops=_linear_flops,
        dtypes=FLOATS,
        strategies=ALL_STRATEGIES,
        contracted=("batch", "in"),
        uses_precision=True,
        program=program,
        mapped="batch",
        training=_fed_back(_LINEAR),
        options={"model": Choice(("linear", "two-layer")), "steps": Integer(0, 0, 100_000)},
    )
    activation = Array("activation", ("batch", "hidden"))
    two_layer = replace(
        linear,
        dims=("batch", "in", "hidden", "out"),
        defaults={"batch": 256, "in": 32, "hidden": 128, "out": 8},
        operands=_operands(_TWO_LAYER),
        results=_results(_TWO_LAYER),
        flops=_two_layer_flops,
        contracted=("batch", "in", "hidden"),
        program=replace(program, function="two_layer_step", between=(prediction, activation)),
        training=_fed_back(_TWO_LAYER),
    )
    return replace(linear, variants={"two-layer": two_layer})


TRAIN_STEP = _train_step()
