"""Carries a search out: estimates, compiles what is best first, measures, proves, and remembers."""
