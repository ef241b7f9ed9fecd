"""Who sends to whom: the bytes of collectives on the links between devices."""
