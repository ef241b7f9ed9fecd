"""SPMD Lab's core: experiments as values, and the worker processes that run them."""
