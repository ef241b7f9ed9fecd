"""The next thing to try, from the facts of an answer."""
