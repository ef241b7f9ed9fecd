"""A run's states, its events, and the memory it needs."""
