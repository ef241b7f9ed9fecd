"""Which argument or constraint put a mesh axis on a value: Shardy's record of its propagation."""
