"""`dpsql init`: proposes a domain for each column of a table, and writes a script that the owner edits and runs."""
