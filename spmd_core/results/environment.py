"""The devices of a run, as JAX reported them."""

from spmd_core.base import Frozen


class Device(Frozen):
    """One device, as JAX lists it."""

    id: int
    process: int
    coords: tuple[int, ...] | None = None
    core: int | None = None
    memory_kinds: tuple[str, ...] = ()
    memory_bytes: int | None = None


class Environment(Frozen):
    """What a worker runs on: versions, platform, devices, and the machine's state when it was
    measured.
    """

    jax: str
    jaxlib: str
    python: str
    platform: str
    platform_version: str | None = None
    device_kind: str
    device_count: int
    process_count: int = 1
    process_index: int = 0
    hosts: tuple[str, ...] = ()  # of several processes: the name of each one's machine
    devices: tuple[Device, ...] = ()
    default_memory: str | None = None
    cores: int | None = None
    host_memory_bytes: int | None = None
    load: float | None = None
    dispatch_floor_s: float | None = None
    xla_flags: str = ""
    libtpu_init_args: str = ""  # flags of the TPU compiler and runtime, from the environment
    libtpu: str | None = None  # of a compile-only target: the package that holds the compiler
    simulated: bool = False
    notes: tuple[str, ...] = ()  # for those who read: not stored, but by older versions
