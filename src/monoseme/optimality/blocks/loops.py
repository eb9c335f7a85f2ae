"""The compiled loops of the block certificates: over compressed codes, with the interpreter's lock released.

Plain loops, nothing else; what they mean stands in `pairs`, `resolve` and `gains`.
"""

from __future__ import annotations

import numpy as np

from monoseme.core.compiled import compiled

__all__ = ["count_partners", "descend", "pair_sums", "split_sums", "widen_sums"]

FLAGS = {"reassoc", "contract", "nsz"}


@compiled(nogil=True)
def count_partners(low, high, starts, order, rows, indptr, indices, mark, counts):
    """counts[j - low]: how many other blocks are ever on together with block j; `mark` (G,) holds -1 throughout."""
    for j in range(low, high):
        found = 0
        for at in range(starts[j], starts[j + 1]):
            row = rows[order[at]]
            for e in range(indptr[row], indptr[row + 1]):
                h = indices[e]
                if h != j and mark[h] != j:
                    mark[h] = j
                    found += 1
        counts[j - low] = found


@compiled(nogil=True, fastmath=FLAGS)
def pair_sums(low, high, starts, order, rows, indptr, indices, values, norms, overlap, slot, first, out):
    """Sums over the rows on which h and j are both on, for every partner h of the columns low..high.

    `out` is (h, j, both, cross, on, ratio, shared, overlap of each pair); `slot` (G,) is scratch, `first` where each
    column's pairs begin.
    """
    partner, column, both, cross, on, ratio, shared, product = out
    b = values.shape[1]
    for j in range(low, high):
        begin = first[j - low]
        used = begin
        for at in range(starts[j], starts[j + 1]):
            own = order[at]
            row, size = rows[own], norms[own]
            for e in range(indptr[row], indptr[row + 1]):
                h = indices[e]
                if h == j:
                    continue
                p = slot[h]
                if p < begin or p >= used or partner[p] != h:
                    p = used
                    slot[h] = p
                    partner[p], column[p] = h, j
                    for c in range(b):
                        for a in range(b):
                            product[p, a, c] = overlap[h * b + a, (j - low) * b + c]
                    used += 1
                both[p] += 1
                inner = 0.0
                for a in range(b):
                    z = values[e, a]
                    for c in range(b):
                        other, mixed = values[own, c], z * values[e, c]
                        cross[p, a, c] += z * other / size
                        on[p, a, c] += mixed / norms[e]
                        ratio[p, a, c] += mixed / size
                        inner += z * other * product[p, a, c]
                length = norms[e] * norms[e] + size * size + 2 * inner
                shared[p] += norms[e] + size - np.sqrt(max(length, 0.0))


@compiled(nogil=True, fastmath=FLAGS)
def descend(rows, directions, b, lam, sweeps, tol, z, r, wanted):
    """Group soft thresholding in turn, over the blocks that are on or that the residual asks for; row by row.

    z (n, G, b) and r (n, d) are changed in place; `wanted` (n, G·b) are the products with the residual at the start.
    """
    d, n_blocks = r.shape[1], z.shape[1]
    work, y = np.empty(n_blocks, np.int64), np.empty(b)
    for at in range(len(rows)):
        i = rows[at]
        count = 0
        for g in range(n_blocks):
            length, active = 0.0, False
            for a in range(b):
                length += wanted[i, g * b + a] ** 2
                active = active or z[i, g, a] != 0
            if active or length > lam * lam:
                work[count] = g
                count += 1
        for _ in range(sweeps):
            moved, size = 0.0, 0.0
            for s in range(count):
                g = work[s]
                length = 0.0
                for a in range(b):
                    total = z[i, g, a]
                    for c in range(d):
                        total += r[i, c] * directions[g * b + a, c]
                    y[a] = total
                    length += total * total
                length = np.sqrt(length)
                shrink = max(1 - lam / length, 0.0) if length > 0 else 0.0
                for a in range(b):
                    new = shrink * y[a]
                    step = new - z[i, g, a]
                    if step != 0:
                        for c in range(d):
                            r[i, c] -= step * directions[g * b + a, c]
                        z[i, g, a] = new
                    moved += step * step
                    size += new * new
            if moved <= tol * tol * size:
                break


@compiled(nogil=True, fastmath=FLAGS)
def split_sums(start, indptr, indices, values, r, delta, pull, reach):
    """reach_g += Σ |z_g Δ_g rᵀ|, pull_g += Σ sign(·) z_gᵀ r over the rows of one batch."""
    b, d = values.shape[1], r.shape[1]
    for i in range(len(r)):
        for e in range(indptr[start + i], indptr[start + i + 1]):
            g, total = indices[e], 0.0
            for a in range(b):
                for c in range(d):
                    total += values[e, a] * delta[g, a, c] * r[i, c]
            sign = 1.0 if total >= 0 else -1.0
            reach[g] += abs(total)
            for a in range(b):
                for c in range(d):
                    pull[g, a, c] += sign * values[e, a] * r[i, c]


@compiled(nogil=True, fastmath=FLAGS)
def widen_sums(start, indptr, indices, norms, lam, r, direction, image):
    """image_g += Σ (r·n_g) r / (1 + λ/‖z_g‖) over the rows of one batch on which g is on."""
    d = r.shape[1]
    for i in range(len(r)):
        for e in range(indptr[start + i], indptr[start + i + 1]):
            g, total = indices[e], 0.0
            for c in range(d):
                total += direction[g, c] * r[i, c]
            total /= 1 + lam / norms[e]
            for c in range(d):
                image[g, c] += total * r[i, c]
