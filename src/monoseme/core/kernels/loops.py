"""The loops, compiled by numba for the CPU. Importing this module costs half a second: `fast` does it on first use.

Each loop works on the rows (or blocks) `low` to `high`, which it owns, and lets go of Python's lock: threads share the
work without sharing a sum, so results do not depend on how many there are. (numba's own thread pool was tried: beside
torch's, on busy cores, a call on a few rows took 10 ms instead of 20 µs.) ``reassoc`` lets the compiler vectorise dot
products; nothing else of fast-math is on, so NaN stays NaN.
"""

from __future__ import annotations

import numpy as np

from monoseme.core.compiled import compiled

__all__ = ["decode", "gather", "outer", "select", "sort_by_block", "values_grad"]

CHUNK = 64
FLAGS = {"reassoc", "contract", "nsz"}


@compiled(fastmath=FLAGS)
def _scores(row, b, nonneg, scores, maxima):
    """Squared block norms of one projected row, and the largest of every chunk of 64."""
    n_blocks = len(scores)
    if b == 1 and nonneg:
        for g in range(n_blocks):
            scores[g] = max(row[g], 0)
    elif b == 1:
        for g in range(n_blocks):
            scores[g] = abs(row[g])
    else:
        for g in range(n_blocks):
            total = row[0] * 0
            for c in range(b):
                value = row[g * b + c]
                if nonneg:
                    value = max(value, 0)
                total += value * value
            scores[g] = total
    for chunk in range(len(maxima)):
        best = scores[chunk * CHUNK]
        for g in range(chunk * CHUNK + 1, min((chunk + 1) * CHUNK, n_blocks)):
            best = max(best, scores[g])
        maxima[chunk] = best


@compiled()
def _kth_largest(values, count, k):
    """The k-th largest of values[:count] by quickselect; reorders `values`. Needs 1 ≤ k ≤ count."""
    low, high, target = 0, count - 1, count - k
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return values[target]


@compiled(nogil=True)
def select(low, high, pre, b, nonneg, k, indices, counts):
    """Write the k largest blocks of every row to `indices` (n, k), ascending, and how many there are to `counts`.

    The k-th largest of the chunk maxima is a lower bound on the k-th largest score (k chunks reach it), so only the few
    scores above it are looked at twice.
    """
    n_blocks = pre.shape[1] // b
    n_chunks = (n_blocks + CHUNK - 1) // CHUNK
    scores, candidates = np.empty(n_blocks, pre.dtype), np.empty(n_blocks, pre.dtype)
    maxima, where = np.empty(n_chunks, pre.dtype), np.empty(n_blocks, np.int32)
    for n in range(low, high):
        _scores(pre[n], b, nonneg, scores, maxima)
        bound = scores[0] * 0
        if n_chunks >= k:
            for chunk in range(n_chunks):
                candidates[chunk] = maxima[chunk]
            bound = max(bound, _kth_largest(candidates, n_chunks, k))
        found = 0
        for chunk in range(n_chunks):
            if maxima[chunk] >= bound:
                for g in range(chunk * CHUNK, min((chunk + 1) * CHUNK, n_blocks)):
                    if scores[g] >= bound and scores[g] > 0:
                        candidates[found] = scores[g]
                        where[found] = g
                        found += 1
        if found <= k:
            for j in range(found):
                indices[n, j] = where[j]
            counts[n] = found
            continue
        threshold = _kth_largest(candidates, found, k)
        above = 0
        for j in range(found):
            if scores[where[j]] > threshold:
                above += 1
        ties = k - above
        written = 0
        for j in range(found):
            score = scores[where[j]]
            if score > threshold or (score == threshold and ties > 0):
                if score == threshold:
                    ties -= 1
                indices[n, written] = where[j]
                written += 1
        counts[n] = written


@compiled(nogil=True)
def gather(low, high, pre, indptr, indices, values):
    """values[p] = pre of the block of entry p, on its row."""
    b = values.shape[1]
    for n in range(low, high):
        for p in range(indptr[n], indptr[n + 1]):
            for c in range(b):
                values[p, c] = pre[n, indices[p] * b + c]


@compiled(nogil=True, fastmath=FLAGS)
def decode(low, high, values, indptr, indices, atoms, out):
    """out[n] = Σ_p values[p] · atoms[indices[p]], over the entries p of row n."""
    b, d = values.shape[1], out.shape[1]
    for n in range(low, high):
        row = out[n]
        row[:] = 0
        for p in range(indptr[n], indptr[n + 1]):
            for c in range(b):
                value = values[p, c]
                atom = atoms[indices[p], c]
                for i in range(d):
                    row[i] += value * atom[i]


@compiled(nogil=True, fastmath=FLAGS)
def values_grad(low, high, rows, indptr, indices, atoms, out):
    """out[p, c] = ⟨atoms[indices[p], c], rows[n]⟩ for the entries p of row n."""
    b, d = out.shape[1], rows.shape[1]
    for n in range(low, high):
        row = rows[n]
        for p in range(indptr[n], indptr[n + 1]):
            for c in range(b):
                atom = atoms[indices[p], c]
                total = row[0] * 0
                for i in range(d):
                    total += row[i] * atom[i]
                out[p, c] = total


@compiled(nogil=True, fastmath=FLAGS)
def outer(low, high, values, row_of, pointer, order, rows, out):
    """out[g, c] = Σ_p values[p, c] · rows[row of p], over the entries p of block g."""
    b, d = values.shape[1], rows.shape[1]
    for g in range(low, high):
        for c in range(b):
            target = out[g, c]
            target[:] = 0
            for q in range(pointer[g], pointer[g + 1]):
                p = order[q]
                value = values[p, c]
                row = rows[row_of[p]]
                for i in range(d):
                    target[i] += value * row[i]


@compiled(nogil=True)
def sort_by_block(indices, pointer, order):
    """Positions of the entries sorted by block, stable: one counting pass, given where each block starts."""
    cursor = pointer[:-1].copy()
    for p in range(len(indices)):
        g = indices[p]
        order[cursor[g]] = p
        cursor[g] += 1
