"""Expectations of a step: assertions of what it communicates and holds, and goldens."""
