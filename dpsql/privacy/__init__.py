"""The trusted part: exact noise, accounting, the ledger and the curator."""
