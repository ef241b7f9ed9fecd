"""What a run found, as values."""
