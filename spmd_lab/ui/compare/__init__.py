"""The parts of Compare."""
