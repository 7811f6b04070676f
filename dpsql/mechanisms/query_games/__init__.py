"""Games between a query player and a data player: DualQuery and FEM."""
