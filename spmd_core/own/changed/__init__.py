"""What changed between two descriptions of a step, and a golden, the short form of one."""
