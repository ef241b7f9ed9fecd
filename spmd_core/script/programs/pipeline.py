"""Layers in a pipeline: y = x + tanh(x @ weights) of each layer, those of all stages once for each repeat.

x is (microbatches, rows, embed), weights (repeats, stages, embed, embed).
"""

import jax
import jax.numpy as jnp

PRECISION = None
STAGES_AXES = ()
GATHERED_SHARDING = None


def initialized(weights):
    """Weights by whose products numbers neither grow nor shrink."""
    return weights / weights.shape[-1] ** 0.5


def layer(x, weights):
    return x + jnp.tanh(jnp.matmul(x, weights, precision=PRECISION)), None


def layers(x, weights):
    """The layers of some stages, one after the other."""
    return jax.lax.scan(layer, x, weights)[0], None


def pipeline(x, weights):
    return jax.lax.scan(layers, x, weights)[0]


def pipeline_explicit(x, weights):
    """With sharding in types, a loop over stages needs the weights of all of them."""
    return pipeline(x, jax.sharding.reshard(weights, GATHERED_SHARDING))


def pipeline_shards(x, weights):
    """MaxText's circular pipeline: in each turn every device takes a microbatch through its stage and passes it to the next device. From the last one microbatches come back to the first, and wait there for the next repeat."""
    devices, device = jax.lax.axis_size(STAGES_AXES), jax.lax.axis_index(STAGES_AXES)
    if devices == 1:
        return pipeline(x, weights)
    microbatches, repeats = len(x), len(weights)
    slots = max(microbatches, devices)  # with fewer microbatches than devices some turns are empty
    waiting = jnp.pad(x, ((0, slots - microbatches), (0, 0), (0, 0)))
    waiting = jnp.where(device == 0, waiting, 0)
    following = [(each, (each + 1) % devices) for each in range(devices)]
    turns = repeats * slots + devices - 1

    def received(waiting, arrived, turn):
        """What was sent on `devices` turns ago has come back to the first device."""
        with_arrived = waiting.at[(turn - devices) % slots].set(arrived)
        return jnp.where((device == 0) & (turn >= devices), with_arrived, waiting)

    def take(turn, carried):
        waiting, arrived = carried
        waiting = received(waiting, arrived, turn)
        given = jnp.where(device == 0, waiting[turn % slots], arrived)
        repeat = jnp.clip((turn - device) // slots, 0, repeats - 1)
        done, _ = layers(given, weights[repeat])
        return waiting, jax.lax.ppermute(done, STAGES_AXES, following)

    waiting, arrived = jax.lax.fori_loop(0, turns, take, (waiting, waiting[0]))
    return jax.lax.psum(received(waiting, arrived, turns)[:microbatches], STAGES_AXES)
