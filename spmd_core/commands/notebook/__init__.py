"""Commands for what a team keeps of its runs: labels, comparisons, reports, archives."""
