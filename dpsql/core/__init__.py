"""Values that every floor shares: domains, cliques, counts, workloads. NumPy only."""
