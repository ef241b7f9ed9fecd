"""Who may come in: looked at with each request, each message and each part of a screen."""
