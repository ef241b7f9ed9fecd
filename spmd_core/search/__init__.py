"""Which sharding is best: the space, what of it is ruled out and why, and its order."""
