"""Settings in statements: `pg_settings`, `current_setting` and `set_config`, as SHOW and SET have them."""

from __future__ import annotations

from typing import Final

from dpsql.core.names import as_text

from .pgwire.served_settings import changes_nothing
from .server_settings import server_settings

VARIABLE: Final = "dpsql_zone"
"""Of a session's connections: the time zone as PostgreSQL shows it, because DuckDB calls some of them otherwise."""
_ZONE: Final = f"coalesce(getvariable('{VARIABLE}'), 'UTC')"


_ROWS: Final = ", ".join(
    "(" + ", ".join(map(as_text, (setting.name, setting.bare, setting.unit, setting.context, setting.kind))) + ")"
    for setting in server_settings().values()
)
VIEW: Final = (
    f"SELECT name, CASE name WHEN 'TimeZone' THEN {_ZONE} ELSE value END AS setting, context, vartype, 'default' AS "  # noqa: S608 - texts of our own file
    "source, nullif(unit, '') AS unit, value AS boot_val, value AS reset_val "
    f"FROM (VALUES {_ROWS}) v(name, value, unit, context, vartype)"
)
"""`pg_settings`, with the server's own values."""
_VALUES: Final = ", ".join(f"{as_text(name)}: {as_text(setting.value)}" for name, setting in server_settings().items())
_FOUND: Final = f"CASE dpsql_n WHEN 'timezone' THEN {_ZONE} ELSE MAP {{{_VALUES}}}[dpsql_n] END"
_OR_ERROR: Final = f"coalesce({_FOUND}, error('unrecognized configuration parameter \"' || dpsql_n || '\"'))"
_HARMLESS: Final = ", ".join(as_text(name) for name in server_settings() if changes_nothing(name))


def _of(expression: str, name: str = "a") -> str:
    """An expression of a setting's name, which has the argument once."""
    return f"list_transform([lower({name})], lambda dpsql_n: {expression})[1]"


MACROS: Final = (
    f"current_setting(a) AS {_of(_OR_ERROR)}, (a, b) AS {_of(f'CASE WHEN b THEN {_FOUND} ELSE {_OR_ERROR} END')}",
    "set_config(a, b, c) AS list_transform([{'n': lower(a), 'v': b::VARCHAR}], lambda dpsql_s: CASE "
    f"WHEN dpsql_s.n IN ({_HARMLESS}) OR (dpsql_s.n = 'search_path' AND dpsql_s.v = '') OR "
    f"dpsql_s.v = {_FOUND.replace('dpsql_n', 'dpsql_s.n')} THEN dpsql_s.v "
    "ELSE error('set_config sets nothing here: write SET ' || dpsql_s.n || ' = … as a statement') END)[1]",
)
"""`set_config` takes what changes nothing, as SET does; a statement sets the rest."""
