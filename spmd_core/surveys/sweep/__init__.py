"""Sentences of a prediction varied, of sizes, and of plans side by side."""
