"""Collectives over a range of sizes: which are measured, what is fitted to them, what is predicted."""
