"""Workloads that users declare in files of their own."""
