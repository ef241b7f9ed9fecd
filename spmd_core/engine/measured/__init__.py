"""Running and timing on devices that are attached."""
