"""How long a sharded computation takes before anything is compiled: an estimate and a bound."""
