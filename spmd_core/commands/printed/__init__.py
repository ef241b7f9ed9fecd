"""What the command line prints: pictures, tables, results."""
