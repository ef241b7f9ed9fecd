"""SPMD Lab: shard arrays and programs of JAX, and read what each sharding costs."""
