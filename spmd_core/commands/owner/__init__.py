"""Commands for whoever runs the dashboard."""
