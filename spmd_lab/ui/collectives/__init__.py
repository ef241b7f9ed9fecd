"""The Collectives screen: its fields, its chart, and what a machine reaches."""
