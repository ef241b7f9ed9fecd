"""The Search screen."""
