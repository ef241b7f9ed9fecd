"""Stored runs as one file, to be imported by another installation."""
