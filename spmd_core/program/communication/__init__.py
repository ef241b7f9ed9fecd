"""What a program communicates, and why."""
