"""What statements may call and read: functions by what `dpsql.core.functions` says of them, the rest by name."""

from __future__ import annotations

from typing import Final

from dpsql.core import functions
from dpsql.core.functions import Trait as T
from dpsql.core.roles import SERVED

_UNTRIED: Final = T.UNTRIED_IN_VIEWS | T.UNTRIED_IN_EXPRESSIONS
_OF_SQL: Final = T.OPERATOR | T.SYNTAX | T.GIVEN | T.ROWS | T.LEVELS | T.MEMBERS | T.CODES
_OF_ROWS: Final = T.AGGREGATE | T.GATHERS | T.ORDER
FUNCTIONS: Final = functions.callable_with(_UNTRIED | _OF_SQL | _OF_ROWS | T.ZONE | T.CLOCK | T.CHANCE)
"""Functions that may be called, by a process that may die alone.

None takes the square of a text's length, because DuckDB cannot be interrupted in it.
"""

TABLE_FUNCTIONS: Final = functions.callable_with(T.ROWS, functions.TABLES) | frozenset(SERVED)
"""Table functions that may be called."""

SCHEMAS: Final = frozenset({"", "main", "pgx", "pgi"})
"""Schemas that may be read: released tables, and views in place of `pg_catalog` and `information_schema`."""

VIEWS: Final = frozenset(
    """
    duckdb_columns duckdb_constraints duckdb_databases duckdb_indexes duckdb_logs duckdb_schemas duckdb_tables
    duckdb_types duckdb_views pg_am pg_attrdef pg_attribute pg_class pg_collation pg_constraint pg_database
    pg_depend pg_description pg_enum pg_index pg_indexes pg_namespace pg_prepared_statements pg_proc pg_sequence
    pg_sequences pg_settings pg_tables pg_tablespace pg_type pg_views pragma_database_list sqlite_master
    sqlite_schema sqlite_temp_master sqlite_temp_schema
    """.split()  # noqa: SIM905
)
"""DuckDB's own views that a name without a schema may mean: no statement may read them."""

EXPRESSIONS: Final = frozenset(
    """
    BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA LAMBDA_REF OPERATOR PARAMETER
    POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW
    """.split()  # noqa: SIM905 - easier to read so
)
"""Classes of DuckDB's expressions that may be in a statement."""

PARTS: Final = frozenset(
    """
    SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE
    BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT SHOW_REF SUBQUERY TABLE_FUNCTION
    DISTINCT_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER ASCENDING DESCENDING ORDER_DEFAULT
    ARRAY_TYPE_INFO DECIMAL_TYPE_INFO ENUM_TYPE_INFO GENERIC_TYPE_INFO LIST_TYPE_INFO STRING_TYPE_INFO STRUCT_TYPE_INFO
    UNBOUND_TYPE_INFO
    """.split()  # noqa: SIM905 - easier to read so
)
"""Other parts of DuckDB's tree that may be: queries, tables, modifiers and what a type is made of.

Not INSERT_QUERY_NODE, UPDATE_QUERY_NODE, DELETE_QUERY_NODE and their like, which DuckDB 2.0 takes in a WITH.
"""
