"""The compiled loop of a toy training step. What it computes stands in `toy`, with its slow twin."""

from __future__ import annotations

from monoseme.core.compiled import compiled

__all__ = ["squared"]


@compiled(nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def squared(values, places, w0, w1, b, g0, g1, gb):
    """Sum of squared errors of rows given by their non-zeros; half its gradient is added to g0, g1, gb.

    An error is ReLU(a) - x in every dimension. Its ReLU(a) part is a plain loop over dimensions; its x part is zero but
    for a row's non-zeros, which are put right afterwards.
    """
    n, zero = len(b), b.dtype.type(0)
    total = 0.0
    for i in range(values.shape[0]):
        h0, h1, loss = zero, zero, zero
        for e in range(values.shape[1]):
            v, j = values[i, e], int(places[i, e])
            h0 += w0[j] * v
            h1 += w1[j] * v
            loss += v * v
        d0, d1 = zero, zero
        for j in range(n):
            r = max(w0[j] * h0 + w1[j] * h1 + b[j], zero)
            loss += r * r
            gb[j] += r
            g0[j] += r * h0
            g1[j] += r * h1
            d0 += r * w0[j]
            d1 += r * w1[j]
        for e in range(values.shape[1]):
            v, j = values[i, e], int(places[i, e])
            a = w0[j] * h0 + w1[j] * h1 + b[j]
            if a > 0:
                loss -= 2 * a * v
                gb[j] -= v
                g0[j] -= v * h0
                g1[j] -= v * h1
                d0 -= v * w0[j]
                d1 -= v * w1[j]
        for e in range(values.shape[1]):
            v, j = values[i, e], int(places[i, e])
            g0[j] += v * d0
            g1[j] += v * d1
        total += loss
    return total
