"""The viewers of program texts."""
