"""Floats: a tick is the number itself, and edges are numbers that the type can hold."""

from __future__ import annotations

from typing import Final

import numpy as np

from dpsql.core.column_types.base import TEXT, TEXT_BYTES, ColumnType, register

_SPELLINGS: Final = {"-0.0": "0.0", "-nan": "nan"}
_EQUAL_TEXT: Final = f"CASE WHEN x = 0 THEN '0.0' WHEN isnan(x) THEN 'nan' ELSE {TEXT} END"
# 0 and −0 are one unit, and so is every NaN
_UNIT_KEY = f"CASE WHEN x = 0 THEN encode('0') WHEN isnan(x) THEN encode('nan') ELSE {TEXT_BYTES} END"

register(
    *(
        ColumnType(
            name,
            "floats",
            step="any",
            is_number=True,
            float_type=float_type,
            tick_of=lambda text, float_type=float_type: float(float_type(text)),  # type: ignore[misc]
            text_of=repr,
            equal_text=_EQUAL_TEXT,
            folded=lambda text: _SPELLINGS.get(text, text),
            respelled=("CASE WHEN x = -x THEN -x ELSE x END",),
            unit_key=_UNIT_KEY,
            some="0.0",
        )
        for name, float_type in (("FLOAT", np.float32), ("DOUBLE", np.float64))
    )
)
