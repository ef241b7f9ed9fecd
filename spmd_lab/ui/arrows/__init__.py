"""The mesh with arrows: devices where they stand, and who sends to whom."""
