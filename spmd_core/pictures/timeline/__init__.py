"""What happens when in a step, operation by operation: predicted, or traced on devices."""
