"""What a search enumerates: shardings of an array program, and of an exported one."""
