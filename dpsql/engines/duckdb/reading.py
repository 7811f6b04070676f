"""What a stored value is, before it becomes a code: a missing one, or a value of the attribute's type.

    missing  =  x IS NULL OR x IN (values that the owner says stand for NULL)
    value    =  x, or of a column of texts TRY_CAST(x AS type) without its suffix, or what a form of time reads from x

It runs on private rows, so nothing in it can fail because of a value: a text that is not of the type is NULL here, and
whoever asks has asked first whether the value is missing. Texts are compared by their bytes, because a column may have
a collation by which others are equal.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.column_types import lists_members
from dpsql.core.domain import Attribute
from dpsql.core.readings import READINGS
from dpsql.engines.duckdb.types import column_of, constant_of, data_type, filled, text_of


def missing(attribute: Attribute) -> exp.Expr:
    """Whether a row has no value in the column."""
    column = column_of(attribute.name)
    is_null = exp.Is(this=column, expression=exp.null())
    if not attribute.nulls_as:
        return is_null
    kind = attribute.stored_type
    if kind == "VARCHAR" or lists_members(kind):
        bytes_of = exp.func("encode", text_of(column.copy()), dialect="duckdb")
        listed = [exp.func("encode", exp.Literal.string(text), dialect="duckdb") for text in attribute.nulls_as]
        return exp.or_(is_null, exp.In(this=bytes_of, expressions=listed))
    constants = [constant_of(text, kind) for text in attribute.nulls_as]
    return exp.or_(is_null, exp.In(this=column.copy(), expressions=constants))


def value(attribute: Attribute) -> exp.Expr:
    """The value in the attribute's type; NULL for a text that is none."""
    return read(column_of(attribute.name), attribute)


def read(stored: exp.Expr, attribute: Attribute) -> exp.Expr:
    """The value in the attribute's type of a stored one."""
    if attribute.reading:
        form = READINGS[attribute.reading]
        if form.is_number:
            whole: exp.Expr = exp.TryCast(this=stored, to=data_type("BIGINT"))
        else:
            whole = exp.func("trim", text_of(stored), dialect="duckdb")
        return exp.paren(filled(form.read, x=whole))
    if not attribute.text:
        return stored
    text: exp.Expr = text_of(stored)
    if attribute.suffix:
        text = exp.func("rtrim", text, exp.Literal.string(attribute.suffix), dialect="duckdb")
    return exp.TryCast(this=text, to=data_type(attribute.type))


def written(value: exp.Expr, attribute: Attribute) -> exp.Expr:
    """A value of the attribute's type as the column stores it."""
    if attribute.reading:
        form = READINGS[attribute.reading]
        made: exp.Expr = exp.paren(filled(form.write, x=value))
        if form.is_number and attribute.text and form.padded:
            digits = [exp.Literal.number(form.digits), exp.Literal.string("0")]
            made = exp.Anonymous(this="lpad", expressions=[text_of(made), *digits])
        # a release is paid before its rows are written, so nothing fails there
        return exp.TryCast(this=made, to=data_type(attribute.stored_type))
    if not attribute.text:
        return value
    text = text_of(value)
    return exp.DPipe(this=text, expression=exp.Literal.string(attribute.suffix)) if attribute.suffix else text
