"""Densities on a space of points, nearest to noisy answers by linear programming: LP and Barak et al."""
