"""IDE: a public prior, moved as little as the noisy marginals ask for."""
