"""`certify_latents`: every number and every verdict on one dictionary and its codes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.stats import wilson
from monoseme.optimality import conditions, gains
from monoseme.optimality.caveats import far_from_optimal, few_rows
from monoseme.optimality.certification import Certification, FeatureCertificate
from monoseme.optimality.columns import Columns, columns
from monoseme.optimality.deciding import About, Decision, decide
from monoseme.optimality.hull import Hull, HullSettings
from monoseme.optimality.latents import Latents
from monoseme.optimality.slack import slack_bounds
from monoseme.optimality.strain import Strains, strains
from monoseme.optimality.wide import check_lam, wide_limit

__all__ = ["CertifySettings", "RowsInOrder", "certify_latents", "pair_with_codes"]

RowsInOrder = Callable[[], Iterator[Float64[np.ndarray, "n d"]]]
VERDICTS = ("stable", "unstable", "unknown")


@dataclass(frozen=True)
class CertifySettings:
    """What to compute, and how hard to try.

    Attributes
    ----------
    about
        ``"rows"`` or ``"population"``; see `deciding`.
    leak
        Share of held-out rows that may speak against a certificate, with ``about="population"``.
    slack, splits, wide
        Whether to compute the slack certificate, split gains, and the wide limit: passes over the rows each.
    hull
        Effort of the hull test.
    threads
        Features at once; ``None``: as many as there are processors.
    """

    about: About = "rows"
    leak: float = 0.01
    slack: bool = True
    splits: bool = True
    wide: bool = True
    hull: HullSettings = field(default_factory=HullSettings)
    threads: int | None = None


def pair_with_codes(rows: RowsInOrder, latents: Latents) -> Callable[[], Iterator[tuple[np.ndarray, Any]]]:
    """Batches of rows, each with its own rows of the codes, a scipy CSR array."""
    from scipy.sparse import csr_array

    whole = csr_array(
        (np.asarray(latents.values, np.float64), latents.indices, latents.indptr),
        shape=(latents.n_rows, latents.n_latents),
    )

    def batches() -> Iterator[tuple[np.ndarray, Any]]:
        start = 0
        for x in rows():
            yield x, whole[start : start + len(x)]
            start += len(x)

    return batches


def certify_latents(
    rows: RowsInOrder,
    latents: Latents,
    lam: float,
    settings: CertifySettings | None = None,
    held: Latents | None = None,
) -> Certification:
    """Certify every latent.

    Parameters
    ----------
    rows
        Called for an iterator of (n, d) float64 batches, in the order of the codes' rows; several times.
    latents
        The dictionary and its codes.
    lam
        λ of the loss in which verdicts are weighed, units of x. Verdicts themselves do not depend on it.
    settings
        See `CertifySettings`.
    held
        Codes of held-out rows over the same latents, needed for ``about="population"``.
    """
    lam, settings = check_lam(lam), CertifySettings() if settings is None else settings
    if settings.threads is not None and settings.threads < 1:
        raise refuse("threads", "be at least 1, or None", settings.threads, "None takes every processor.")
    by, batches = columns(latents), pair_with_codes(rows, latents)
    total: conditions.Sums | None = None
    for x, codes in batches():
        part = conditions.sums(x, codes, latents.atoms, latents.bias, lam)
        total = part if total is None else total.merge(part)
    assert total is not None
    bounds = slack_bounds(batches, latents, by, lam) if settings.slack else None
    kept = None if held is None or settings.about == "rows" else (held, columns(held))
    strain = strains(latents, by)
    # where there is only so much time, the most strained are judged first: strict pairs are among them
    order = np.argsort(-strain.value, kind="stable")
    decisions = _decide_all(Hull(latents, by, settings.hull), settings, kept, bounds, order, strain)
    features = _features(decisions, latents, by, strain, total, lam)
    if settings.splits:
        gain, _ = gains.split_gains(batches, latents, by, lam)
        features = tuple(replace(f, split_gain=float(gain[f.feature])) for f in features)
    numbers = _numbers(features, total, lam)
    numbers |= _wide(rows, latents, lam, numbers["loss"].value or 0.0, settings)
    kkt = conditions.outcomes(total, latents.atoms, lam)
    provenance = {"rows": latents.n_rows, "latents": latents.n_latents, "width": latents.atoms.shape[1]}
    if kept is not None:
        provenance["held_out_rows"] = kept[0].n_rows
    away = None if kept is None else (kept[1], kept[0].n_rows)
    caveats = (
        *far_from_optimal(kkt, lam, latents.learned_bias),
        *few_rows(by, latents.n_rows, away, settings.leak),
    )
    return Certification(
        features=features,
        numbers=numbers,
        kkt=kkt,
        lam=lam,
        about=settings.about,
        learned_bias=latents.learned_bias,
        notes=(*latents.notes, *caveats),
        provenance=provenance,
        atoms=latents.atoms,
    )


def _decide_all(
    hull: Hull,
    settings: CertifySettings,
    held: tuple[Latents, Columns] | None,
    bounds: tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]] | None,
    order: Int64[np.ndarray, " K"],
    strain: Strains,
) -> list[Decision]:
    def one(j: int) -> Decision:
        slack = (np.inf, 0.0) if bounds is None else (float(bounds[0][j]), float(bounds[1][j]))
        return decide(hull, j, settings.about, held, settings.leak, slack, int(strain.partner[j]))

    from threadpoolctl import threadpool_limits

    # features are shared out among threads; a linear algebra library that does so too would fight them for processors
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(settings.threads or os.cpu_count()) as pool:
        made = dict(zip(order.tolist(), pool.map(one, order.tolist()), strict=True))
    return [made[j] for j in range(hull.latents.n_latents)]


def _features(
    decisions: list[Decision], latents: Latents, by: Columns, strain: Strains, total: conditions.Sums, lam: float
) -> tuple[FeatureCertificate, ...]:
    return tuple(
        FeatureCertificate(
            feature=j,
            block=int(latents.owner[j]),
            side=int(latents.side[j]),
            verdict=d.verdict,
            why=d.why,
            removable_loss=lam * d.guaranteed,
            violation_lower=d.lower,
            violation_upper=d.upper,
            partners=d.partners,
            witness=d.witness,
            step=d.step,
            strain=float(strain.value[j]),
            strain_partner=int(strain.partner[j]),
            density=float(by.density[j]),
            antipode_gain=float(total.antipode[j] / total.n),
        )
        for j, d in enumerate(decisions)
    )


def _numbers(features: tuple[FeatureCertificate, ...], s: conditions.Sums, lam: float) -> dict[str, Outcome]:
    n, live = len(features), [f for f in features if f.density > 0]
    loss, best = (s.square + 2 * lam * s.mass) / s.n, max((f.removable_loss for f in features), default=0.0)
    made = {}
    for verdict in VERDICTS:
        count = sum(f.verdict == verdict for f in live)
        low, high = wilson(count, len(live)) if live else (None, None)
        value = count / len(live) if live else None
        note = f"{count:,} of {len(live):,} live features"
        made[verdict] = Outcome(verdict, value, "share", low, high, n=len(live), n_unit="features", note=note)
    made["dead_share"] = Outcome("dead_share", (n - len(live)) / n, "share", better="lower", n=n, n_unit="features")
    made["loss"] = Outcome("loss", loss, "‖x‖²", better="lower", note="E‖zW + b - x‖² + 2λ E Σ z")
    made["reconstruction"] = Outcome("reconstruction", s.square / s.n, "‖x‖²", better="lower")
    made["l0"] = Outcome("l0", s.entries / s.n, "latents/row")
    made["removable"] = Outcome(
        "removable",
        best / loss if loss > 0 else None,
        "share",
        better="lower",
        note="loss that the best single certificate removes for certain, share of the loss",
    )
    return made


def _wide(
    rows: RowsInOrder, latents: Latents, lam: float, loss: float, settings: CertifySettings
) -> dict[str, Outcome]:
    if not settings.wide:
        names = {"wide_bound": "‖x‖²", "gap": "‖x‖²", "rays": "atoms"}
        return {name: unknown(name, unit, "not asked for") for name, unit in names.items()}
    limit = wide_limit(_Streamed(rows, latents), lam, tol=1e-6, most=200)
    bound = max(limit.loss - limit.gap, 0.0)
    return {
        "wide_bound": Outcome("wide_bound", bound, "‖x‖²", note="no dictionary of any width and bias is below"),
        "gap": Outcome("gap", loss - bound, "‖x‖²", better="lower", note="loss above the wide bound"),
        "rays": unknown("rays", "atoms", "too many rows to hold in memory")
        if limit.rays is None
        else Outcome("rays", float(limit.rays), "atoms", note=f"width at which the bound is reached{limit.reading}"),
    }


class _Streamed:
    """Rows that are read anew for every pass, as `wide_limit` wants them."""

    def __init__(self, rows: RowsInOrder, latents: Latents) -> None:
        self.rows, self.n = rows, latents.n_rows

    def __len__(self) -> int:
        return self.n

    def parts(self) -> Iterator[Float64[np.ndarray, "n d"]]:
        """Yield all rows once."""
        return self.rows()
