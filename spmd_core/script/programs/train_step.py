"""One step of gradient descent on a mean squared error, of a linear model and of a network of two layers.

Weights are drawn with variance 1, so a layer divides its product by the root of how many terms it adds: activations and
gradients then keep their size, whatever the sizes of the layers are.
"""

import jax
import jax.numpy as jnp
import numpy as np

LEARNING_RATE = 0.2
PRECISION = None
SUM_DTYPE = None
BATCH_AXES = ()
IN_AXES = ()
HIDDEN_AXES = ()
OUT_AXES = ()
PREDICTION_SHARDING = None
ACTIVATION_SHARDING = None


def teacher(x, noise):
    """Targets that can be learned: a linear function of x, and a tenth of noise."""
    weights = np.random.default_rng(1).normal(size=(x.shape[-1], noise.shape[-1]))
    return x @ weights / np.sqrt(x.shape[-1]) + 0.1 * noise


def loss_of(prediction, target):
    """Squared error, summed over the outputs, its mean over the batch."""
    return jnp.mean(jnp.sum((prediction - target) ** 2, axis=-1))


def dense(x, weights, bias, sharding=None):
    """x @ weights / sqrt(terms) + bias; `sharding` is that of the product, where types ask for it."""
    product = jnp.matmul(x, weights, precision=PRECISION, out_sharding=sharding)
    return product / weights.shape[0] ** 0.5 + bias


def descend(parameters, gradients):
    """The parameters, moved against their gradients."""
    return tuple(
        (parameter - LEARNING_RATE * gradient).astype(parameter.dtype)
        for parameter, gradient in zip(parameters, gradients, strict=True)
    )


def linear_step(x, target, weights, bias):
    def loss(weights, bias):
        return loss_of(dense(x, weights, bias), target)

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(weights, bias)
    return value, *descend((weights, bias), gradients)


def linear_step_explicit(x, target, weights, bias):
    """In types, the product declares how it is sharded; its gradient is sharded as the weights are."""

    def loss(weights, bias):
        return loss_of(dense(x, weights, bias, PREDICTION_SHARDING), target)

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(weights, bias)
    return value, *descend((weights, bias), gradients)


def sum_dense(x, weights, bias, axes):
    """A dense layer whose sum is spread over the devices along `axes`; and the root of how many terms it adds."""
    scale = (weights.shape[0] * jax.lax.axis_size(axes)) ** 0.5
    product = jax.lax.psum(
        jnp.matmul(x, weights, precision=PRECISION, preferred_element_type=SUM_DTYPE), axes
    )
    return (product / scale + bias).astype(x.dtype), scale


def mean_gradients(x, error, scale):
    """Gradients of a dense layer's weights and bias: the mean, over the devices, of what each has from its part of the batch."""
    product = jnp.matmul(x.T, error, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    gradients = product / scale, error.sum(axis=0, dtype=SUM_DTYPE)
    return jax.lax.pmean(gradients, BATCH_AXES)


def mean_loss(difference):
    """The loss and its gradient: sums over the outputs, means over the batch, both over the devices that hold the parts."""
    loss = jax.lax.psum(jnp.mean(jnp.sum(difference**2, axis=1, dtype=SUM_DTYPE)), OUT_AXES)
    return jax.lax.pmean(loss, BATCH_AXES).astype(
        difference.dtype
    ), 2 * difference / difference.shape[0]


def linear_step_shards(x, target, weights, bias):
    """Each device has the gradients of its part of the batch, written out; pmean takes their mean over the devices."""
    prediction, scale = sum_dense(x, weights, bias, IN_AXES)
    loss, error = mean_loss(prediction - target)
    return loss, *descend((weights, bias), mean_gradients(x, error, scale))


def two_layer_step(x, target, w1, b1, w2, b2):
    def loss(*parameters):
        w1, b1, w2, b2 = parameters
        return loss_of(dense(jnp.tanh(dense(x, w1, b1)), w2, b2), target)

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(w1, b1, w2, b2)
    return value, *descend((w1, b1, w2, b2), gradients)


def two_layer_step_explicit(x, target, w1, b1, w2, b2):
    """In types, each product declares how it is sharded; gradients are sharded as the weights are."""

    def loss(*parameters):
        w1, b1, w2, b2 = parameters
        activation = jnp.tanh(dense(x, w1, b1, ACTIVATION_SHARDING))
        return loss_of(dense(activation, w2, b2, PREDICTION_SHARDING), target)

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(w1, b1, w2, b2)
    return value, *descend((w1, b1, w2, b2), gradients)


def two_layer_step_shards(x, target, w1, b1, w2, b2):
    """Each device has the gradients of its part of the batch, written out; pmean takes their mean over the devices."""
    inside, scale1 = sum_dense(x, w1, b1, IN_AXES)
    activation = jnp.tanh(inside)
    prediction, scale2 = sum_dense(activation, w2, b2, HIDDEN_AXES)
    loss, error = mean_loss(prediction - target)
    product = jnp.matmul(error, w2.T, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    error1 = (jax.lax.psum(product, OUT_AXES) / scale2 * (1 - activation**2)).astype(x.dtype)
    gradients = *mean_gradients(x, error1, scale1), *mean_gradients(activation, error, scale2)
    return loss, *descend((w1, b1, w2, b2), gradients)
