"""Measurements: each script prints its figures beside their goals, and ends with 1 where one is
missed.
"""
