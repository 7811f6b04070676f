"""Table functions of DuckDB written in Python: declare, register, stream.

A function is declared by its name, its parameters and `bind`, which returns a `Relation`:

    class Squares(TableFunction):
        name = "squares"
        parameters = (Parameter("upto", "BIGINT", positional=True),)

        def bind(self, call: Call) -> Relation:
            return Query(f"SELECT i, i * i AS square FROM range({call['upto']:d}) t(i)", cardinality=call["upto"])

    register(handle_of_the_database, [Squares()])

Binding is free: `bind` only tells the schema (the columns of a `SELECT` that is prepared, never executed). `run` of the
relation does the work, once for each scan that DuckDB executes, and returns the `SELECT` whose rows are streamed: its
chunks are handed over by reference, so every type of DuckDB passes through unchanged and only the columns that the
query needs are read.

DuckDB calls back on threads of its own. A callback never raises: a `DpsqlError` becomes DuckDB's error with its text;
any other exception becomes a constant text with the exception's class, for its message could hold a private value.
"""
