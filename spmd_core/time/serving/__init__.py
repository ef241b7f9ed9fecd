"""How long a step of serving takes, what its cache holds, and a load on it."""
