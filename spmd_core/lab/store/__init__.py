"""What is kept: one SQLite file."""
