"""The minimum of a function of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_GOLDEN: Final = 0.5 * (3.0 - math.sqrt(5.0))
_ROUNDING: Final = math.sqrt(2.2e-16)
_MOST_CALLS: Final = 500


def minimum(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """The least value between two numbers of a function that falls, then rises.

    Brent's method: parabolas through the three best points, steps of the golden section where none fits (Algorithms for
    minimization without derivatives, 1973, chapter 5). Every operation is that of `scipy.optimize.minimize_scalar` with
    method "bounded", so values are equal to the last bit, as keys of earlier releases need. SciPy's takes half a second
    to import.

    >>> round(minimum(lambda x: (x - 2) ** 2 + 1, 0.0, 5.0, 1e-9), 6)
    1.0
    """
    best = second = third = low + _GOLDEN * (high - low)
    value = second_value = third_value = function(best)
    step = step_before = 0.0
    for _ in range(_MOST_CALLS - 1):
        middle = 0.5 * (low + high)
        least_step = _ROUNDING * abs(best) + tolerance / 3.0
        if abs(best - middle) <= 2.0 * least_step - 0.5 * (high - low):
            break
        is_parabola = False
        if abs(step_before) > least_step:
            r = (best - second) * (value - third_value)
            q = (best - third) * (value - second_value)
            p = (best - third) * q - (best - second) * r
            q = 2.0 * (q - r)
            p, q = -p if q > 0.0 else p, abs(q)
            r, step_before = step_before, step
            is_parabola = abs(p) < abs(0.5 * q * r) and q * (low - best) < p < q * (high - best)
            if is_parabola:
                step = p / q
                if best + step - low < 2.0 * least_step or high - (best + step) < 2.0 * least_step:
                    step = least_step if middle >= best else -least_step
        if not is_parabola:
            step_before = low - best if best >= middle else high - best
            step = _GOLDEN * step_before
        point = best + max(abs(step), least_step) * (1 if step >= 0 else -1)
        function_value = function(point)
        if function_value <= value:
            low, high = (best, high) if point >= best else (low, best)
            third, third_value, second, second_value, best, value = (
                second,
                second_value,
                best,
                value,
                point,
                function_value,
            )
        else:
            low, high = (point, high) if point < best else (low, point)
            if function_value <= second_value or second == best:
                third, third_value, second, second_value = second, second_value, point, function_value
            elif function_value <= third_value or third in (best, second):
                third, third_value = point, function_value
    return value
