"""Specs, a mesh and arrays of pasted code, read as syntax."""
