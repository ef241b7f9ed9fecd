"""How long an operation or a collective takes on a target: one question, several sources."""
