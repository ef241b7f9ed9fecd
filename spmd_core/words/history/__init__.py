"""Words of stored runs: the rows of History, and what differs between experiments."""
