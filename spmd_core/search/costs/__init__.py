"""What a sharding costs before anything is compiled: an estimate, a bound, and their rates."""
