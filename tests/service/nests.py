"""Texts that have parts inside one another, long lists and odd characters: a table of what PostgreSQL's grammar nests."""

from __future__ import annotations

from hypothesis import strategies as st
from sqlglot import exp

NESTS = {
    "parentheses": ("(", ")"),
    "CASE": ("CASE WHEN true THEN ", " END"),
    "ELSE": ("CASE WHEN false THEN 0 ELSE ", " END"),
    "WHEN": ("CASE WHEN (", ") = 1 THEN 1 END"),
    "lists": ("[", "]"),
    "ARRAY": ("ARRAY[", "]"),
    "structs": ("{'a': ", "}"),
    "lambdas": ("list_transform([1], lambda x: ", ")"),
    "arrows": ("list_transform([1], x -> ", ")"),
    "inner comprehensions": ("[", " FOR x IN [1]]"),
    "comprehensions": ("[x FOR x IN [", "]]"),
    "subqueries": ("(SELECT ", ")"),
    "EXISTS": ("EXISTS (SELECT ", ")"),
    "IN": ("1 IN (SELECT ", ")"),
    "CTEs": ("(WITH c AS (SELECT ", " AS a) SELECT a FROM c)"),
    "FROM": ("(SELECT a FROM (SELECT ", " AS a) t)"),
    "LATERAL": ("(SELECT a FROM (SELECT 1) s, LATERAL (SELECT ", " AS a) t)"),
    "joins": ("(SELECT max(r.a) FROM (SELECT 1 AS a) l JOIN (SELECT ", " AS a) r ON l.a = r.a)"),
    "UNION": ("(SELECT 1 UNION ALL SELECT ", " LIMIT 1)"),
    "VALUES": ("(VALUES (", "))"),
    "CAST": ("CAST(", " AS text)"),
    "casts": ("", "::text"),
    "numeric": ("", "::numeric"),
    "regclass": ("CAST(CAST(", " AS regclass) AS oid)"),
    "plus": ("1 + ", ""),
    "minus": ("- ", ""),
    "NOT": ("NOT ", ""),
    "AND": ("true AND ", ""),
    "OR": ("", " OR true"),
    "texts": ("'a' || ", ""),
    "BETWEEN": ("(1 BETWEEN 0 AND ", ")::int"),
    "LIKE": ("('a' LIKE ", ")::text"),
    "COLLATE": ("", ' COLLATE "C"'),
    "subscripts": ("", "[1]"),
    "fields": ("", ".a"),
    "calls": ("abs(", ")"),
    "coalesce": ("coalesce(", ", 1)"),
    "ours": ("pg_catalog.format_type(", ", NULL)"),
    "aggregates": ("(SELECT max(", "))"),
    "windows": ("(SELECT sum(", ") OVER ())"),
    "FILTER": ("(SELECT sum(1) FILTER (WHERE ", " = 1))"),
    "ANY": ("1 = ANY(ARRAY(SELECT ", "))"),
    "rows": ("ROW(", ")"),
    "intervals": ("extract(day FROM interval '1 day' * ", ")"),
    "comments": ("/* ", " */ 1"),
    "COPY": ("COPY (SELECT ", ") TO STDOUT"),
    "cursors": ("DECLARE c CURSOR WITH HOLD FOR SELECT ", ""),
    "EXPLAIN": ("EXPLAIN SELECT ", ""),
}
"""What opens and closes each."""
ODD = [
    "\u200b",
    "\ufeff",
    "\u0301",
    "🙈",
    "\x01",
    "\x7f",
    "\u2028",
    "ß",
    "İ",
    "'",
    '"',
    "\\",
    "$",
    "$$",
    ";",
    "--",
    "/*",
]
LISTS = {
    "columns": lambda n: "SELECT " + ", ".join(["1"] * n),
    "rows": lambda n: "VALUES " + ", ".join(["(1)"] * n),
    "IN": lambda n: f"SELECT 1 IN ({', '.join(map(str, range(n)))})",
    "OR": lambda n: "SELECT " + " OR ".join(["1 = 1"] * n),
    "names": lambda n: "SELECT a" + ".a" * n,
    "statements": lambda n: "SELECT 1;" * min(n, 200),
    "arguments": lambda n: f"SELECT concat({', '.join(['1'] * n)})",
    "parameters": lambda n: "SELECT " + ", ".join(f"${place + 1}" for place in range(n)),
    "aliases": lambda n: "SELECT 1 AS " + "a" * n,
    "settings": lambda n: "SET " + "a." * n + "b = 1",
    "savepoints": lambda n: "SAVEPOINT a " * n,
    "fetch": lambda n: "FETCH " + "FORWARD " * n + "c",
}
"""What may be long."""


def nested(name: str, depth: int, inner: str = "1") -> str:
    """A statement of one construct so many times in itself."""
    opening, closing = NESTS[name]
    text = f"{opening * depth}{inner}{closing * depth}"
    return text if opening.split(" ")[0] in ("COPY", "DECLARE", "EXPLAIN") else f"SELECT {text}"


_NAMES = st.text(st.sampled_from([*"aZ_ 0.", *(sign for sign in ODD if len(sign) == 1)]), min_size=1, max_size=8)
_LEAVES = st.one_of(
    st.integers(-9, 99).map(exp.Literal.number),
    st.integers(2**64, 9**30).map(exp.Literal.number),  # between these, rows of generate_series fill a process
    _NAMES.map(exp.Literal.string),
    _NAMES.map(lambda name: exp.column(name, quoted=True)),
    st.sampled_from([exp.null(), exp.true(), exp.Star(), exp.Placeholder(), exp.column("i", table="shown")]).map(
        exp.Expression.copy
    ),
)
_TYPES = st.sampled_from(["text", "int", "numeric", "bytea", "regclass", "oid", "time", "date", "json", "int[]"])
_CALLS = st.sampled_from(["count", "max", "abs", "coalesce", "format", "to_char", "generate_series", "list_transform"])


def _grown(inner: st.SearchStrategy[exp.Expression]) -> st.SearchStrategy[exp.Expression]:
    return st.one_of(
        inner.map(lambda x: exp.Paren(this=x)),
        inner.map(lambda x: exp.Neg(this=x)),
        inner.map(lambda x: exp.Not(this=x)),
        inner.map(lambda x: exp.Subquery(this=exp.select(x))),
        inner.map(lambda x: exp.Exists(this=exp.Select(expressions=[exp.Literal.number(1)], where=exp.Where(this=x)))),
        st.tuples(inner, _NAMES).map(lambda p: exp.alias_(exp.Subquery(this=exp.select(p[0])), p[1], quoted=True)),
        st.tuples(inner, _TYPES).map(lambda p: exp.cast(p[0], p[1], dialect="postgres")),
        st.tuples(inner, inner, inner).map(lambda p: exp.Case(ifs=[exp.If(this=p[0], true=p[1])], default=p[2])),
        st.tuples(_CALLS, st.lists(inner, max_size=4)).map(lambda p: exp.Anonymous(this=p[0], expressions=p[1])),
        st.lists(inner, max_size=4).map(lambda many: exp.Array(expressions=many)),
        st.tuples(inner, st.lists(inner, min_size=1, max_size=4)).map(lambda p: exp.In(this=p[0], expressions=p[1])),
        st.tuples(st.sampled_from([exp.Add, exp.Div, exp.EQ, exp.And, exp.Or, exp.DPipe, exp.Like]), inner, inner).map(
            lambda p: p[0](this=p[1], expression=p[2])
        ),
        st.tuples(inner, inner).map(lambda p: exp.Window(this=exp.Max(this=p[0]), partition_by=[p[1]])),
    )


_COLUMNS = st.recursive(_LEAVES, _grown, max_leaves=12)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A SELECT of random trees, in PostgreSQL's or DuckDB's spelling, now and then cut or with an odd character in it."""
    tree = exp.select(*draw(st.lists(_COLUMNS, min_size=1, max_size=3)))
    if draw(st.booleans()):
        tree = tree.from_("shown")
    if draw(st.booleans()):
        tree.set("where", exp.Where(this=draw(_COLUMNS)))  # `where` takes conditions alone if sqlglot is compiled
    if draw(st.booleans()):
        tree = exp.select("*").with_("c", as_=tree).from_("c")
    sql = tree.sql(draw(st.sampled_from(["postgres", "duckdb"])))
    place = draw(st.integers(0, 2 * len(sql)))
    return (
        sql
        if place >= len(sql)
        else sql[:place] + draw(st.sampled_from([*ODD, ""])) + sql[place + draw(st.integers(0, 3)) :]
    )
