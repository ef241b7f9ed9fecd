"""Tests of comparisons and reports."""
