"""What would remove a collective: candidate changes, and what compiling one shows."""
