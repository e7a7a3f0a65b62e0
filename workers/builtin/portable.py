"""Exponential and logarithm from +, -, *, / alone: the same last bit on every machine.

IEEE 754 fixes what those four give; a C library's own `exp` and `log` may round differently. Both
are within a few units in the last place of the true value.
"""

from math import frexp, ldexp

_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476
_LN_TERMS = [1 / (2 * k + 1) for k in range(11, -1, -1)]
_EXP_DEGREE = 14


def ln(x: float) -> float:
    """The natural logarithm of a positive number: `2 artanh((m - 1) / (m + 1)) + e ln 2`."""
    mantissa, exponent = frexp(x)
    if mantissa < _ROOT_HALF:
        mantissa, exponent = mantissa * 2, exponent - 1
    t = (mantissa - 1) / (mantissa + 1)
    square, series = t * t, 0.0
    for term in _LN_TERMS:
        series = series * square + term
    return 2 * t * series + exponent * _LN2


def exp(x: float) -> float:
    """The exponential of a number no greater than 0; far below, it becomes 0."""
    halvings = int(x / _LN2 - 0.5)
    rest = x - halvings * _LN2
    series = 1.0
    for degree in range(_EXP_DEGREE, 0, -1):
        series = 1.0 + series * rest / degree
    return ldexp(series, max(halvings, -2000))
