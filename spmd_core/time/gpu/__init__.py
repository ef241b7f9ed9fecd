"""How long work and collectives take on GPUs."""
