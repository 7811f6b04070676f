"""What is read without noise: public tables, priors, views and what a query names."""
