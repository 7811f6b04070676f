"""The ledger, and the tables that state what it says: a chain of events, its key, its head, accounts and members."""
