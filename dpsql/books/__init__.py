"""The books of a database: accounts, charges, answers, releases, in a chain with a head outside; what is public."""
