"""Marginals measured at once, with answers by least squares: direct answers and HDMM."""
