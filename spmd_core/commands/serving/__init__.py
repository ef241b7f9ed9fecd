"""What serves a model."""
