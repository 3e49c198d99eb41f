"""HTTP to the outside: guarded, bounded, and its answers read."""
