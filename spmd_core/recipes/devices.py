"""The devices, as JAX lists them."""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec
from spmd_core.recipes.tutorial import DATA

RECIPES = (
    Recipe(
        "devices",
        "The devices of this machine",
        DATA,
        program_spec("devices_listed"),
        "One line for each device: id, process, coordinates and core. On simulated CPU devices "
        "the last two are None.",
        "Everything starts with jax.devices(). On a TPU each device has a place in the torus "
        "(coords) and a core on its chip; neighbors there are "
        "neighbors on the wire. A CPU or GPU has neither. The notebooks of 2022 first called "
        "jax.tools.colab_tpu and jax.lib.xla_bridge: both are "
        "gone, jax.default_backend() names the platform now.",
        expected=Expected(
            contains={
                "devices": ("id=0, process_index=0, coords=", "core_on_chip=", "id=7"),
                "jax.tools.colab_tpu": ("ModuleNotFoundError",),
                "jax.lib.xla_bridge": ("AttributeError", "xla_bridge"),
            },
        ),
    ),
)
