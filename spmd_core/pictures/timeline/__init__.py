"""The timeline of a step, operation by operation: predicted, or traced on devices."""
