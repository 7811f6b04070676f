"""Floats: a tick is the number itself, and edges are numbers that the type can hold."""

from __future__ import annotations

import numpy as np

from dpsql.core.column_types.base import TEXT_BYTES, ColumnType, register

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
            unit_key=_UNIT_KEY,
        )
        for name, float_type in (("FLOAT", np.float32), ("DOUBLE", np.float64))
    )
)
