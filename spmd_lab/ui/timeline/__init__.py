"""A timeline to walk in: the component, and what is handed to it."""
