"""The hull condition (H), feature by feature: bounds of the distance D_j, each with its witness.

A dictionary can only be a local minimum if, for every live j, there are weights a_i ≥ 0 on the rows I_j where j is off
with Σ a_i = 1 and

    1 - c_jk = Σ_{i ∈ I_j} a_i z_ik / m_k          for all k ≠ j                (H; arXiv 2606.02385, hull condition)

c_jk = ⟨w_j, w_k⟩, m_k = E[z_k]. λ does not appear. With a fixed bias the sum is free: a cone instead of a hull. In the
scaled codes y_ik = z_ik / √m_k and g_k = √m_k (1 - c_jk) the violation is a distance,

    D_j = min_a ‖g - Σ_i a_i y_i‖                                                (ours)

Any a bounds it from above. Any direction β bounds it from below: with β₀ = -max_{I_j} ⟨β, z_i⟩ (cone: 0, and β must not
be positive on any of these rows), γ = Σ β_k m_k (1 - c_jk) + β₀ and S = Σ m_k β_k², D_j ≥ γ / √S, and moving along β
lowers the loss by at least λ (2eγ - e²S) for every e ≤ e_max (see `guaranteed`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from monoseme.core.seeds import rng
from monoseme.optimality.bounds import Direction, Weights
from monoseme.optimality.columns import Columns
from monoseme.optimality.latents import Latents
from monoseme.optimality.tilt import MOST_LATENTS, tilt

MOST_ROWS = 8192  # a third of the rows that are tried first, at most
FIRST_STEPS, LATER_STEPS = 150, 500  # before Newton's method and after it, where it is affordable

__all__ = ["Hull", "HullSettings"]


@dataclass(frozen=True)
class HullSettings:
    """How hard to try.

    Attributes
    ----------
    tolerance
        A feature is inside when D_j ≤ tolerance · ‖g‖.
    iterations
        Most steps on one set of rows.
    rounds
        Most times that rows are added.
    tight
        An outside feature is left when its bounds are this close, D_low ≥ tight · D_up, or after four rounds.
    seed
        Of the rows that are tried first.
    seconds
        Stop searching so long after the beginning; what is open then stays unknown. ``None``: as long as it takes.
    """

    tolerance: float = 1e-6
    iterations: int = 1500
    rounds: int = 10
    tight: float = 0.9
    seed: int = 0
    seconds: float | None = None


def _under(first, matrix):
    """A compressed matrix with one dense row on top."""
    ptr, idx, val = matrix
    live = np.flatnonzero(first).astype(np.int32)
    ptr = np.concatenate([[0], ptr + len(live)])
    return ptr, np.concatenate([live, idx]), np.concatenate([first[live], val])


class Hull:
    """The condition of all features of one set of codes; `decide` is called a feature at a time, from any thread."""

    def __init__(self, latents: Latents, by: Columns, settings: HullSettings | None = None) -> None:
        self.latents, self.by = latents, by
        self.settings = HullSettings() if settings is None else settings
        self.until = np.inf if self.settings.seconds is None else time.monotonic() + self.settings.seconds
        live = by.mass > 0
        self.root = np.sqrt(by.mass)
        self.scale = np.divide(1.0, self.root, out=np.zeros_like(self.root), where=live)
        self.codes = (latents.indptr, latents.indices, np.asarray(latents.values, np.float64))
        self.row_sums = np.zeros(latents.n_rows)
        if not latents.learned_bias:
            owner = np.repeat(np.arange(latents.n_rows), np.diff(latents.indptr))
            self.row_sums = np.bincount(owner, weights=self.codes[2], minlength=latents.n_rows)

    def target(self, j: int) -> Float64[np.ndarray, " K"]:
        """G of feature j; its own coordinate is left out (0)."""
        cosine = self.latents.atoms @ self.latents.atoms[j]
        g = self.root * (1.0 - np.clip(cosine, -1.0, 1.0))
        g[j] = 0.0
        return g

    def off(self, j: int) -> Int64[np.ndarray, " m"]:
        """Rows on which feature j is off, I_j."""
        mask = np.ones(self.latents.n_rows, bool)
        mask[self.by.of(j)[0]] = False
        return np.flatnonzero(mask)

    def scores(self, rows: Int64[np.ndarray, " m"], direction: Float64[np.ndarray, " K"]) -> Float64[np.ndarray, " m"]:
        """⟨direction, z_i⟩ on the given rows."""
        from monoseme.optimality import loops

        out = np.empty(len(rows))
        loops.scores(rows, *self.codes, direction, out)
        return out

    def _middle(self, j: int, rows: Int64[np.ndarray, " m"]) -> Float64[np.ndarray, " K"]:
        """Mean of the scaled codes over I_j."""
        from monoseme.optimality import loops

        total = self.by.mass * self.latents.n_rows
        active = np.asarray(self.by.of(j)[0], np.int64)
        loops.sum_rows(active, np.full(len(active), -1.0), *self.codes, total)
        # a latent that never fires on I_j leaves only the rounding of the difference
        total[np.abs(total) < 1e-12 * self.by.mass * self.latents.n_rows] = 0.0
        total[j] = 0.0
        return self.scale * total / max(len(rows), 1)

    def uniform(self, j: int, rows: Int64[np.ndarray, " m"], g: Float64[np.ndarray, " K"]) -> Weights:
        """Equal weights on all of I_j (cone: of the best sum). Exact for independent orthogonal features."""
        y = self._middle(j, rows)
        sum_ = 1.0
        if not self.latents.learned_bias and y @ y > 0:
            sum_ = max(float(y @ g) / float(y @ y), 0.0)
        return Weights(np.zeros(0, np.int64), np.zeros(0), float(np.linalg.norm(g - sum_ * y)), sum_)

    def direction(
        self, j: int, rows: Int64[np.ndarray, " m"], g: Float64[np.ndarray, " K"], beta: Float64[np.ndarray, " K"]
    ) -> Direction:
        """Complete β by the β₀ (cone: by the shift) that makes it valid on all rows of I_j, and measure it."""
        high = self.scores(rows, beta) if len(rows) else np.zeros(0)
        offset = 0.0
        if self.latents.learned_bias:
            offset = -float(high.max()) if len(rows) else 1.0
        elif len(rows) and high.max() > 0:
            sums = self.row_sums[rows]
            up = high > 0
            # lowering every coordinate alike takes z's sum times the shift away from every row
            shift = float((high[up] / sums[up]).max()) * (1 + 1e-12)
            beta = np.where(self.by.mass > 0, beta - shift, 0.0)
            beta[j] = 0.0
        index = np.flatnonzero(beta)
        gamma = float((beta * self.root) @ g) + offset
        size = float(self.by.mass @ np.square(beta))
        return Direction(index, beta[index], offset, gamma, size, self._most(j, beta, offset))

    def _most(self, j: int, beta: Float64[np.ndarray, " K"], offset: float) -> float:
        active, own = self.by.of(j)
        moved = self.scores(np.asarray(active, np.int64), beta) + offset
        down = moved > 0
        return float((own[down] / moved[down]).min()) if down.any() else np.inf

    def decide(self, j: int, floor: float = 0.0, hint: int = -1) -> tuple[Weights | None, Direction | None]:
        """Bounds of D_j from both sides, with the witnesses that were found.

        Parameters
        ----------
        j
            The feature.
        floor
            A distance below which nothing more is asked.
        hint
            A latent that may take over alone, tried before any search; -1 for none.

        Returns
        -------
        Weights, Direction
            The best upper and lower bound; either may be ``None`` when none was found (never fires: both).
        """
        if self.by.mass[j] <= 0:
            return None, None
        rows, g = self.off(j), self.target(j)
        tol = max(self.settings.tolerance * float(np.linalg.norm(g)), floor)
        if len(rows) == 0 and self.latents.learned_bias:  # never off: the bias can take over
            return None, self.direction(j, rows, g, np.zeros_like(g))
        best = self.uniform(j, rows, g)
        if best.distance <= tol:
            return best, None
        if len(rows) == 0:
            return best, self.direction(j, rows, g, g * self.scale)
        return self._search(j, rows, g, tol, best, hint)

    def _search(
        self, j: int, rows: Int64[np.ndarray, " m"], g: Float64[np.ndarray, " K"], tol: float, best: Weights, hint: int
    ) -> tuple[Weights, Direction | None]:
        """FISTA on a few rows; Newton on all when that decides nothing; outside, FISTA again for a tighter bound."""
        from monoseme.optimality import loops

        settings, cone = self.settings, not self.latents.learned_bias
        middle = self._middle(j, rows)
        few = min(len(rows), max(512, 3 * min(int((g > 0).sum()), MOST_ROWS)))
        chosen = np.zeros(len(rows), bool)
        chosen[rng(settings.seed, "hull", j).permutation(len(rows))[:few]] = True
        # half on the middle, half spread: a start in a corner takes ten times as many steps
        pool, start = np.flatnonzero(chosen), np.full(few + 1, 0.5 * best.even / few)
        start[0] = 0.5 * best.even
        found = self._pair(j, hint, rows, g, tol)
        newton = int((self.by.mass > 0).sum()) <= MOST_LATENTS
        few_steps = (FIRST_STEPS, LATER_STEPS) if newton else (settings.iterations, settings.iterations)
        for turn in range(settings.rounds):
            if time.monotonic() > self.until:
                break
            matrix = _under(middle, loops.copy_rows(rows[pool], *self.codes, self.scale))
            lipschitz = 1.1 * loops.spectral(*matrix, len(g), not cone)
            a, rho = start, np.empty_like(g)
            steps = min(settings.iterations, few_steps[turn > 0])
            _, norm = loops.fista(*matrix, g, a, rho, lipschitz, steps, 0.5 * tol, settings.tight, cone)
            if norm < best.distance:
                used = a[1:] > 0
                best = Weights(rows[pool][used], a[1:][used], float(norm), float(a[0]))
            if norm <= tol:
                return best, found
            beta = rho * self.scale
            candidate = self.direction(j, rows, g, beta)
            # a bound below a tenth of the tolerance could be rounding
            if candidate.bound > 0.1 * tol and (found is None or candidate.bound > found.bound):
                found = candidate
            if newton and turn == 0 and found is None:
                best, found = self._newton(j, rows, g, tol, best)
                if best.distance <= tol:
                    return best, None
            if found is not None and (found.bound >= settings.tight * best.distance or turn >= 3):
                break  # proven; after a few rounds more digits of D_j are not worth their price
            new = self._objectors(rows, beta, chosen)
            if not len(new):
                break  # every row is in, or none objects: this is as far as the steps reach
            chosen[new] = True
            pool, start = np.concatenate([pool, new]), np.concatenate([a, np.zeros(len(new))])
        return best, found

    def _newton(
        self, j: int, rows: Int64[np.ndarray, " m"], g: Float64[np.ndarray, " K"], tol: float, best: Weights
    ) -> tuple[Weights, Direction | None]:
        """Tilted weights on all rows, or a certificate, or what was known before."""
        from monoseme.optimality import loops

        matrix = loops.copy_rows(rows, *self.codes, self.scale)

        def proves(beta: Float64[np.ndarray, " K"]) -> bool:
            return self.direction(j, rows, g, beta * self.scale).gamma > 0

        made = tilt(matrix, g, tol, None if self.latents.learned_bias else proves)
        if made.distance < best.distance:
            nothing = np.zeros(0, np.int64), np.zeros(0)
            best = Weights(*nothing, made.distance, made.shift, made.beta * self.scale)
        if not made.outside:
            return best, None
        candidate = self.direction(j, rows, g, made.beta * self.scale)
        return best, candidate if candidate.bound > 0.1 * tol else None

    def _pair(
        self, j: int, hint: int, rows: Int64[np.ndarray, " m"], g: Float64[np.ndarray, " K"], tol: float
    ) -> Direction | None:
        """The certificate that moves one latent only, if it is one (the pair screen)."""
        if hint < 0 or hint == j:
            return None
        beta = np.zeros_like(g)
        beta[hint] = 1.0
        found = self.direction(j, rows, g, beta)
        return found if found.bound > 0.1 * tol else None

    def _objectors(
        self, rows: Int64[np.ndarray, " m"], beta: Float64[np.ndarray, " K"], chosen: Bool[np.ndarray, " m"]
    ) -> Int64[np.ndarray, " new"]:
        """Places of the rows outside the pool that reach furthest along β."""
        high = self.scores(rows, beta)
        high[chosen] = -np.inf
        many = min(max(256, len(rows) // 64), int((~chosen).sum()))
        if many == 0:
            return np.zeros(0, np.int64)
        top = np.argpartition(high, -many)[-many:]
        return top[high[top] > -np.inf]

    def sparsest(self, j: int, direction: Direction) -> Direction:
        """Of a direction and its 1, 2 and 4 largest parts, the one that guarantees most: few partners, longer steps."""
        rows, g = self.off(j), self.target(j)
        share = direction.weight * self.root[direction.index] * g[direction.index]
        order, best = np.argsort(-share), direction
        for s in (1, 2, 4):
            if s >= len(order):
                break
            beta = np.zeros_like(g)
            beta[direction.index[order[:s]]] = direction.weight[order[:s]]
            candidate = self.direction(j, rows, g, beta)
            if candidate.guaranteed > best.guaranteed:
                best = candidate
        return best
