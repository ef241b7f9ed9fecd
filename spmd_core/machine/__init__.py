"""What a machine is: attached, simulated or absent."""
