"""What a team keeps of its runs: names, notes and tags, reports, archives."""
