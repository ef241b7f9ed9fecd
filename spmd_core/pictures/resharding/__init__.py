"""Data movement between two shardings of an array, and for a product of sharded arrays."""
