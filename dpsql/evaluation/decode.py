"""Released codes to values, as SQL that DuckDB runs; nothing private is left in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.duckdb.reading import written
from dpsql.engines.duckdb.ticks import from_tick
from dpsql.engines.duckdb.types import column_of, constant_of, data_type, text_of
from dpsql.engines.source import Source


def released_columns(source: Source, names: Sequence[str], attributes: Iterable[Attribute]) -> exp.Select:
    """A SELECT of no row, with the columns of a synthetic table in the types in which they come out."""
    as_text = {attribute.name for attribute in attributes if attribute.text or attribute.released_type == "VARCHAR"}
    columns = [column_of(name) for name in names]
    typed = [exp.alias_(text_of(c), c.name, quoted=True) if c.name in as_text else c for c in columns]
    return exp.select(*typed).from_(source.table()).limit(0)


def as_read(source: Source, domain: Domain) -> Source:
    """A source whose columns have the types as which expressions read them: of texts that are numbers, numbers."""
    types = {attribute.name: attribute.type for attribute in domain if attribute.is_read}
    columns = (replace(column, type=types.get(column.name, column.type)) for column in source.columns)
    return replace(source, columns=tuple(columns)) if types else source


def stored(attribute: Attribute, code: str, ticks: str) -> exp.Expr:
    """The value of a code as a synthetic table holds it: see `decode`, but texts in place of what they are read as."""
    return written(decode(attribute, code, ticks), attribute)


def decode(attribute: Attribute, code: str, ticks: str) -> exp.Expr:
    """The value of a code in the attribute's type, from the columns `code` and, for bins, `ticks` of a frame.

    A frame has whole numbers in types as small as they fit, in which a sum would overflow.
    """
    index = exp.cast(exp.column(code), "INTEGER", dialect="duckdb")
    if attribute.kind == "excluded":
        return exp.null()
    if attribute.kind == "values":
        texts: list[exp.Expr] = [exp.Literal.string(value) for value in attribute.values]
        texts += [exp.Literal.string(attribute.other)] if attribute.other is not None else []
        listed = exp.func(
            "list_extract",
            exp.Array(expressions=texts),
            exp.Add(this=index, expression=exp.Literal.number(1)),
            dialect="duckdb",
        )
        return exp.cast(listed, data_type(attribute.released_type), dialect="duckdb")
    regular = exp.LT(this=index, expression=exp.Literal.number(attribute.regular))
    tick = exp.column(ticks) if attribute.is_float else exp.cast(exp.column(ticks), "BIGINT", dialect="duckdb")
    value = exp.case().when(regular, from_tick(tick, attribute.type))
    if attribute.other is not None:
        is_other = exp.EQ(this=index.copy(), expression=exp.Literal.number(attribute.other_code))
        value = value.when(is_other, constant_of(attribute.other, attribute.type))
    return value


def stood_in(domain: Domain) -> dict[str, exp.Expr]:
    """The values of the excluded columns that are not NULL, by name.

    They are made of the columns of `dpsql.owner.stand_ins` and `dpsql.evaluation.computed`.
    """
    stand_ins: dict[str, exp.Expr] = {}
    for place, attribute in enumerate(domain.excluded):
        value: exp.Expr = exp.column(f"s{place}")
        if attribute.ids and attribute.type == "UUID":
            halves = (value, exp.column(f"r{place}"))
            value = exp.Anonymous(this="format", expressions=[exp.Literal.string("{:016x}{:016x}"), *halves])
        if attribute.computed_as:
            there = exp.EQ(this=exp.column(f"r{place}"), expression=exp.Literal.number(0))
            value = exp.case().when(there, value)
        if attribute.ids or attribute.fake or attribute.computed_as:
            stand_ins[attribute.name] = exp.cast(value, data_type(attribute.type), dialect="duckdb")
    return stand_ins
