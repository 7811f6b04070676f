"""PostgreSQL's wire protocol, version 3: one thread a client."""
