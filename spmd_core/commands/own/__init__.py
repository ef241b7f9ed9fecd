"""Commands about steps of one's own code."""
