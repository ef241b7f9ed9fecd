"""Measures a machine itself: its ceilings, single operations and collectives."""
