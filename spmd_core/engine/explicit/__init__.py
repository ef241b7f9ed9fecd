"""Finds every sharding type error of a step, and what makes the step trace under Explicit axes."""
