"""The compiled loops of the nonnegative lasso: one row after another, each with its own working set of atoms."""

from __future__ import annotations

import numpy as np

from monoseme.core.compiled import compiled

__all__ = ["judge", "solve"]

FLAGS = {"reassoc", "contract", "nsz"}


@compiled(nogil=True)
def judge(low, high, alive, corr, r, scale, lam, tol, members, count, z, state, gap):
    """Measure the gap of the rows alive[low:high], and bring the atoms that object into their working sets.

    corr[a] = W r of row alive[a]. A row is done (state 2) when its gap is small, or when its working set was solved to
    rounding (state 1) and no atom joins. Members that the gap proves to be off (gap-safe sphere about θ, of
    radius √gap) are dropped.
    """
    n_atoms = corr.shape[1]
    inside = np.zeros(n_atoms, np.bool_)
    outside, excess = np.empty(n_atoms, np.int32), np.empty(n_atoms)
    for a in range(low, high):
        i = alive[a]
        row = corr[a]
        top, square = 0.0, 0.0
        for k in range(n_atoms):
            top = max(top, row[k])
        for c in range(r.shape[1]):
            square += r[i, c] * r[i, c]
        s = min(1.0, lam / top) if top > 0 else 1.0
        rest = 0.0
        for m in range(count[i]):
            rest += z[i, m] * (lam - s * row[members[i, m]])
        # P - D with y = r + zW put in: no difference of large numbers; every term is at least 0 up to rounding
        gap[i] = (1 - s) * (1 - s) * square + 2 * max(rest, 0.0)
        if gap[i] <= tol * scale[i]:
            state[i] = 2
            continue
        radius, kept = np.sqrt(gap[i]), 0
        if count[i] == members.shape[1]:
            radius = -np.inf  # no room: whatever is off leaves
        for m in range(count[i]):
            k = members[i, m]
            if z[i, m] > 0 or s * row[k] + radius >= lam:
                members[i, kept], z[i, kept] = k, z[i, m]
                inside[k] = True
                kept += 1
        found, strongest = 0, lam
        for k in range(n_atoms):
            if row[k] > lam and not inside[k]:
                outside[found], excess[found] = k, row[k]
                strongest = max(strongest, row[k])
                found += 1
        before = kept
        room = min(max(32, kept // 2), members.shape[1] - kept)
        least, many = lam, found
        while many > room and strongest - least > 1e-12 * strongest:  # only those that object most
            least, many = 0.5 * (least + strongest), 0
            for f in range(found):
                many += excess[f] >= least
        for k in members[i, :kept]:
            inside[k] = False
        for f in range(found):
            if excess[f] >= least and kept < members.shape[1]:
                members[i, kept], z[i, kept] = outside[f], 0.0
                kept += 1
        if state[i] == 1 and kept == before:
            state[i] = 2
        count[i] = kept


@compiled(nogil=True, fastmath=FLAGS)
def _gram_of(atoms, gram, chosen, out):
    """Scalar products of the chosen atoms: looked up where the whole table is there, else computed."""
    n = len(chosen)
    for p in range(n):
        for q in range(p + 1):
            if len(gram) > 0:
                total = gram[chosen[p], chosen[q]]
            else:
                total = 0.0
                for c in range(atoms.shape[1]):
                    total += atoms[chosen[p], c] * atoms[chosen[q], c]
            out[p, q] = total
            out[q, p] = total


@compiled(nogil=True)
def _sweep(g, z, grad):
    """One round of coordinate descent, z_p ← (z_p + grad_p / G_pp)₊. Returns the largest violation met."""
    n, worst = len(z), 0.0
    for p in range(n):
        if g[p, p] <= 0.0:
            continue
        new = max(z[p] + grad[p] / g[p, p], 0.0)
        step = new - z[p]
        if step != 0.0:
            worst = max(worst, abs(step) * g[p, p])
            z[p] = new
            for q in range(n):
                grad[q] -= step * g[p, q]
    return worst


@compiled(nogil=True)
def _backward(low, size, step):
    """Solve L'u = step in place, for the leading part of that size of a lower triangle."""
    for p in range(size - 1, -1, -1):
        for c in range(p + 1, size):
            step[p] -= low[c, p] * step[c]
        step[p] /= low[p, p]


@compiled(nogil=True)
def _move(g, z, grad, on, step, far):
    """Codes z[on] move along `step`, at most `far` of it and until the first of them is 0. Returns whether one is."""
    first = -1
    for p in range(len(on)):
        if z[on[p]] + far * step[p] < 0.0:
            far, first = -z[on[p]] / step[p], p
    for p in range(len(on)):
        before = z[on[p]]
        z[on[p]] = max(before + far * step[p], 0.0) if p != first else 0.0  # 0, not what rounding leaves
        for q in range(len(z)):
            grad[q] -= (z[on[p]] - before) * g[on[p], q]
    return first >= 0


@compiled(nogil=True)
def _newton(g, z, grad):
    """Step from codes z on the support {z > 0} to the exact solution there, as far as they stay nonnegative.

    Cholesky. Where an atom depends on those before it, the reconstruction does not change along one direction: codes
    move along it, downhill, until one is 0. Returns whether a code became 0.
    """
    on = np.flatnonzero(z > 0)
    size = len(on)
    low, step = np.zeros((size, size)), np.zeros(size)
    for p in range(size):
        total = 0.0
        for q in range(p + 1):
            total = g[on[p], on[q]]
            for c in range(q):
                total -= low[p, c] * low[q, c]
            if p > q:
                low[p, q] = total / low[q, q]
        if total <= 1e-12:
            for c in range(p):
                step[c] = -low[p, c]
            _backward(low, p, step)
            step[p] = 1.0
            slope, bend = 0.0, 0.0
            for c in range(p + 1):
                slope += step[c] * grad[on[c]]
                for q in range(p + 1):
                    bend += step[c] * g[on[c], on[q]] * step[q]
            if slope < 0.0 or step.min() >= 0.0:
                slope, step = -slope, -step
            # a bend of rounding: copies of one atom, and moving between them is free
            return _move(g, z, grad, on, step, slope / bend if bend > 1e-13 else 1e300)
        low[p, p] = np.sqrt(total)
        step[p] = grad[on[p]]
        for c in range(p):
            step[p] -= low[p, c] * step[c]
        step[p] /= low[p, p]
    _backward(low, size, step)
    return _move(g, z, grad, on, step, 1.0)


@compiled(nogil=True)
def solve(low, high, alive, corr, atoms, gram, y, r, scale, lam, members, count, z, state, sweeps, most):
    """Solve the lasso of rows alive[low:high] on their working sets, and leave their residuals in r.

    Coordinate descent finds the support, a Newton step on it the exact values, in turn. state 1: to rounding.
    """
    for a in range(low, high):
        i = alive[a]
        if state[i] == 2:
            continue
        n = count[i]
        g, code, grad = np.empty((n, n)), z[i, :n], np.empty(n)
        _gram_of(atoms, gram, members[i, :n], g)
        for p in range(n):
            grad[p] = corr[a, members[i, p]] - lam
        fine, state[i] = 1e-14 * (np.sqrt(scale[i]) + lam), 0
        for _turn in range(100):
            worst = np.inf
            for _ in range(4):
                worst = _sweep(g, code, grad)
                sweeps[i] += 1
                if worst <= fine:
                    break
            if worst <= fine:
                state[i] = 1
                break
            if sweeps[i] >= most:
                break
            for _ in range(n):
                if not _newton(g, code, grad):
                    break
        if sweeps[i] >= most:
            state[i] = 3  # one more judgement, then it is left as it is
        r[i] = y[i]
        for p in range(n):
            if code[p] > 0:
                for c in range(r.shape[1]):
                    r[i, c] -= code[p] * atoms[members[i, p], c]
