"""The compiled loops of the hull condition: over rows of codes, with the interpreter's lock released.

Plain loops over compressed rows, nothing else; what they mean stands in `hull` and `screens`.
"""

from __future__ import annotations

import numpy as np

from monoseme.core.compiled import compiled

__all__ = [
    "by_column",
    "copy_rows",
    "fista",
    "gram",
    "residual",
    "scores",
    "spectral",
    "split_sums",
    "strains",
    "sum_rows",
    "times",
]


@compiled(nogil=True)
def by_column(indptr, indices, values, place, rows, sorted_values):
    """Counting sort of the entries by column; `place` is the first free place of each column."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            at = place[indices[e]]
            rows[at] = i
            sorted_values[at] = values[e]
            place[indices[e]] = at + 1


@compiled(nogil=True)
def sum_rows(rows, weights, indptr, indices, values, out):
    """Out += Σ_i weights_i · (row i of the codes), over the given rows."""
    for a in range(len(rows)):
        w = weights[a]
        for e in range(indptr[rows[a]], indptr[rows[a] + 1]):
            out[indices[e]] += w * values[e]


@compiled(nogil=True)
def scores(rows, indptr, indices, values, direction, out):
    """out_i = ⟨direction, row i⟩ over the given rows."""
    for a in range(len(rows)):
        total = 0.0
        for e in range(indptr[rows[a]], indptr[rows[a] + 1]):
            total += direction[indices[e]] * values[e]
        out[a] = total


@compiled(nogil=True)
def copy_rows(rows, indptr, indices, values, scale):
    """The given rows as a compressed matrix of their own, each column multiplied by its scale."""
    ptr = np.zeros(len(rows) + 1, np.int64)
    for a in range(len(rows)):
        ptr[a + 1] = ptr[a] + indptr[rows[a] + 1] - indptr[rows[a]]
    idx, val = np.empty(ptr[-1], np.int32), np.empty(ptr[-1])
    for a in range(len(rows)):
        shift = ptr[a] - indptr[rows[a]]
        for e in range(indptr[rows[a]], indptr[rows[a] + 1]):
            idx[e + shift] = indices[e]
            val[e + shift] = values[e] * scale[indices[e]]
    return ptr, idx, val


@compiled(nogil=True)
def times(ptr, idx, val, x, out):
    """Out = Y x."""
    for i in range(len(ptr) - 1):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            total += val[e] * x[idx[e]]
        out[i] = total


@compiled(nogil=True)
def residual(ptr, idx, val, a, g, out):
    """Out = g - Y'a."""
    for k in range(len(g)):
        out[k] = g[k]
    for i in range(len(ptr) - 1):
        w = a[i]
        if w != 0.0:
            for e in range(ptr[i], ptr[i + 1]):
                out[idx[e]] -= w * val[e]


@compiled(nogil=True)
def gram(ptr, idx, val, weights, out):
    """Out += Σ_i weights_i y_i y_iᵀ, on and above the diagonal."""
    for i in range(len(ptr) - 1):
        w = weights[i]
        if w != 0.0:
            for e in range(ptr[i], ptr[i + 1]):
                scaled, k = w * val[e], idx[e]
                for f in range(ptr[i], ptr[i + 1]):
                    if idx[f] >= k:
                        out[k, idx[f]] += scaled * val[f]


@compiled(nogil=True)
def spectral(ptr, idx, val, width, centred):
    """Largest eigenvalue of YY', or of its part on sums of zero; power iteration, from below by a few per cent."""
    n = len(ptr) - 1
    v, back = np.empty(n), np.zeros(width)
    for i in range(n):
        v[i] = np.sin(1.0 + 7.0 * i)  # any start that is not orthogonal to the answer; the same one every time
    zero, size = np.zeros(width), 0.0
    for _ in range(12):
        mean = v.mean() if centred else 0.0
        norm = 0.0
        for i in range(n):
            v[i] -= mean
            norm += v[i] * v[i]
        norm = np.sqrt(norm)
        if norm == 0.0:
            return 0.0
        for i in range(n):
            v[i] /= norm
        residual(ptr, idx, val, v, zero, back)
        size = 0.0
        for k in range(width):
            size += back[k] * back[k]
            back[k] = -back[k]
        times(ptr, idx, val, back, v)
    return size


@compiled(nogil=True)
def _to_simplex(v, total):
    """Euclidean projection of v onto {a ≥ 0, Σa = total}, in place (Michelot's passes)."""
    n = len(v)
    count, mass = n, 0.0
    for i in range(n):
        mass += v[i]
    tau = (mass - total) / n
    while True:
        mass, kept = 0.0, 0
        for i in range(n):
            if v[i] > tau:
                mass += v[i]
                kept += 1
        if kept >= count or kept == 0:
            break
        count, tau = kept, (mass - total) / kept
    for i in range(n):
        v[i] = v[i] - tau if v[i] > tau else 0.0


@compiled(nogil=True)
def fista(ptr, idx, val, g, a, rho, lipschitz, most, tol, enough, cone):
    """Minimise ½‖g - Y'a‖² over the simplex (over a ≥ 0, if `cone`) by FISTA with restarts.

    Leaves a and rho = g - Y'a. Stops when ‖rho‖ ≤ tol, or when γ ≥ enough · ‖rho‖², or after `most` iterations, with
    γ = ⟨rho, g⟩ - max_i ⟨rho, y_i⟩ over these rows (cone: the maximum counts above 0 only). Returns (steps, ‖rho‖).
    """
    n, k = len(a), len(g)
    now, forward, before = a.copy(), np.empty(n), a.copy()
    look, t = np.empty(k), 1.0
    norm, step = 0.0, 0
    residual(ptr, idx, val, a, g, rho)
    last = 0.5 * np.dot(rho, rho)
    if lipschitz <= 0.0:
        lipschitz = 1.0  # rows all alike: nothing to learn from their spread; too small a guess is raised below
    for step in range(most + 1):
        norm = np.sqrt(2.0 * last)
        if norm <= tol or step % 10 == 0 or step == most:
            times(ptr, idx, val, rho, forward)
            highest = forward.max()
            gamma = np.dot(rho, g) - (max(highest, 0.0) if cone else highest)
            if norm <= tol or gamma >= enough * norm * norm or step == most:
                break
        residual(ptr, idx, val, now, g, look)
        here = 0.5 * np.dot(look, look)
        times(ptr, idx, val, look, forward)
        while True:
            for i in range(n):
                a[i] = now[i] + forward[i] / lipschitz
            if cone:
                np.maximum(a, 0.0, a)
            else:
                _to_simplex(a, 1.0)
            residual(ptr, idx, val, a, g, rho)
            value, model, far = 0.5 * np.dot(rho, rho), here, 0.0
            for i in range(n):
                gone = a[i] - now[i]
                model -= forward[i] * gone
                far += gone * gone
            if value <= model + 0.5 * lipschitz * far + 1e-15 * here or lipschitz > 1e300:
                break
            lipschitz *= 1.5
        if value > last and t > 1.0:  # momentum overshot: begin again from the best point
            t = 1.0
            for i in range(n):
                a[i] = before[i]
                now[i] = before[i]
            residual(ptr, idx, val, a, g, rho)
            continue
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        for i in range(n):
            now[i] = a[i] + (t - 1.0) / faster * (a[i] - before[i])
            before[i] = a[i]
        t, last = faster, value
    return step, norm


@compiled(nogil=True)
def strains(low, high, col_ptr, col_rows, indptr, indices, values, mass, cosines, learned_bias, strain, partner):
    """Largest strain bound of features low to high; see `strain`. A sum over the active rows of each, no K x K table.

    Row j - low of `cosines` holds those of feature j.
    """
    n_rows, width = len(indptr) - 1, len(mass)
    inside = np.empty(width)
    for j in range(low, high):
        active = col_ptr[j + 1] - col_ptr[j]
        strain[j], partner[j] = 1.0, -1
        if active == 0:
            continue
        if learned_bias:
            strain[j] = n_rows / (n_rows - active) if active < n_rows else np.inf
        inside[:] = 0.0
        for place in range(col_ptr[j], col_ptr[j + 1]):
            row = col_rows[place]
            for e in range(indptr[row], indptr[row + 1]):
                inside[indices[e]] += values[e]
        for k in range(width):
            apart = 1.0 - cosines[j - low, k]
            if k == j or mass[k] <= 0.0 or apart <= 1e-12:
                continue  # duplicates do not strain one another
            outside = 1.0 - inside[k] / n_rows / mass[k]
            # rounding of two sums of the same numbers: all of k's mass lies where j is on
            kappa = np.inf if outside <= 1e-12 else apart / outside
            if kappa > strain[j]:
                strain[j], partner[j] = kappa, k


@compiled(nogil=True)
def split_sums(indptr, indices, values, residual, directions, pull, reach):
    """pull_k += Σ z_k sign(δ_k·r) r and reach_k += Σ z_k |δ_k·r| over the rows of one batch."""
    width = residual.shape[1]
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            k, dot = indices[e], 0.0
            for c in range(width):
                dot += directions[k, c] * residual[i, c]
            step = values[e] if dot >= 0 else -values[e]
            reach[k] += step * dot
            for c in range(width):
                pull[k, c] += step * residual[i, c]
