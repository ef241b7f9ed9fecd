"""The parts of Predict."""
