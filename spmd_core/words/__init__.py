"""The sentences of the screens and the command line."""
