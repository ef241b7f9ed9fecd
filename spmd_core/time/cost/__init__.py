"""What a compiled program costs: operations, links, schedule, memory."""
