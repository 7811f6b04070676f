"""The service: analysts ask over the network, in two processes, of which one alone opens the private file.

The *keeper* opens the DuckDB file, keeps the books and makes releases. The *front* has a DuckDB of its own with
released tables, where all runs that analysts write. Between them a Unix socket carries calls of dp_*, and rows.
"""
