"""`certify`: which parts of a dictionary an optimum would keep, with a proof for each verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from monoseme.core.code import Code
from monoseme.core.errors import refuse
from monoseme.core.protocols import Featurizes
from monoseme.core.rows import ArrayRows, RowSource, as_rows
from monoseme.optimality import reading
from monoseme.optimality.blocks import certify_blocks
from monoseme.optimality.certification import Certification
from monoseme.optimality.certify import CertifySettings, RowsInOrder, certify_latents, pair_with_codes
from monoseme.optimality.conditions import implied_lam
from monoseme.optimality.deciding import About
from monoseme.optimality.lasso import resolve_rows
from monoseme.optimality.latents import Latents
from monoseme.optimality.wide import check_lam
from monoseme.store import ActivationStore

__all__ = ["certify"]

BATCH = 4096
PRODUCTS = 1 << 24  # of rows with latents that are held at once: 128 MB
HELD_OUT = 0.2  # of rows in memory, for a verdict about the population
L1_ONLY = "L1-equivalent stability: the verdict is about the L1 problem on these codes, not the training loss"
OWN_LAM = "Units of x: of an own fit, float(featurizer.units.scale) times its lam."
Codes = Any  # dense array or tensor, scipy sparse matrix, or Code


def certify(
    x: Any,
    atoms: Any = None,
    codes: Codes | Literal["as-is", "resolved"] = "as-is",
    bias: Any = None,
    lam: float | None = None,
    learned_bias: bool = True,
    *,
    about: About | None = None,
    split: str = "train",
    max_rows: int | None = None,
    settings: CertifySettings | None = None,
    seed: int = 0,
) -> Certification:
    """Certify a dictionary: ``certify(x, atoms, codes, bias, lam)`` or ``certify(featurizer, store, lam=)``.

    For every feature a verdict ``stable``, ``unstable`` or ``unknown``, with its proof, the loss that is removable for
    certain, and the features that would take over (arXiv 2606.02385; certificates are ours).

    Parameters
    ----------
    x
        Rows (n, d), numpy or torch floating point; or a featurizer (anything with ``atoms, bias, encode``).
    atoms
        (K, d) atoms; rescaled to norm 1 with a note when they are not. With a featurizer: the store, or rows.
    codes
        (n, K) codes, dense, scipy sparse or `Code`; signed ones count as two atoms ±w each. With a featurizer
        ``"as-is"``, its own. ``"resolved"``: the optimal nonnegative codes on these atoms at `lam`, solved here; for
        encoders, whose codes are not optimal, the fairer question about the decoder.
    bias
        (d,); zero when left out. A featurizer brings its own.
    lam
        λ of E‖zW + b - x‖² + 2λ‖z‖₁, units of x: half of an SAE's usual l1 coefficient. ``fit`` takes it in training
        units: of one of ours it is ``float(featurizer.units.scale)`` times that. ``None``: the λ that the codes behave
        like (least squares of K2); refused when that is not positive. It changes the numbers in loss units, not the
        verdicts of codes as they are.
    learned_bias
        Whether the bias is free to move (then the hull condition applies), or fixed (the cone).
    about
        ``"rows"``: verdicts about exactly these rows. ``"population"``: certificates must hold on held-out rows too.
        ``None``, the default: ``"rows"`` when atoms and codes are given as arrays (or what `settings` say);
        ``"population"`` for a featurizer, on a store as on an array. Of a store the "test" split is held out (so it
        cannot be the `split`); of rows in memory a fifth. Which it was stands in ``.about``, in the table, on the page.
    split, max_rows
        Rows of the store to certify on: which split, and at most how many (the first of its shuffled order).
    settings
        Effort; see `optimality.certify.CertifySettings`. Its own `about` counts for arrays only, without `about` here.
    seed
        Of which rows are held out, and which are drawn.

    Raises
    ------
    UserError
        For shapes that do not fit, integers, NaN, a `lam` that is not positive, and too few rows.
    """
    chosen = CertifySettings() if settings is None else settings
    if isinstance(x, Featurizes):
        chosen = replace(chosen, about=about or "population")
        return _featurizer(x, atoms, codes, lam, learned_bias, chosen, split, max_rows, seed)
    if isinstance(codes, str) and codes == "as-is":
        raise refuse("codes", "be given with arrays", "nothing", "Give (n, K) codes, or codes='resolved'.")
    rows = reading.as_matrix(x, "x")
    w = reading.as_matrix(_scalar(atoms), "atoms", rows.shape[1])
    b = reading.as_bias(bias, rows.shape[1])
    return _arrays(rows, w, b, codes, lam, learned_bias, replace(chosen, about=about or chosen.about), seed)


def _scalar(atoms: Any) -> Any:
    """(K, 1, d) is (K, d); larger blocks are another certificate."""
    shape = getattr(atoms, "shape", ())
    if len(shape) == 3 and shape[1] == 1:
        return atoms[:, 0]
    if len(shape) == 3:
        raise refuse(
            "atoms", "be (K, d), one direction each", tuple(shape), "For blocks certify the featurizer itself."
        )
    return atoms


def _arrays(
    rows: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    codes: Codes,
    lam: float | None,
    learned_bias: bool,
    settings: CertifySettings,
    seed: int,
) -> Certification:
    given = None if isinstance(codes, str) else reading.as_code(codes, len(rows), len(w))
    keep = ~_away(len(rows), seed) if settings.about == "population" else np.ones(len(rows), bool)
    parts = [None if given is None else reading.rows_of(given, np.flatnonzero(mask)) for mask in (keep, ~keep)]
    whole = reading.latents(w, b, given, learned_bias) if given is not None else None
    signed = whole is not None and whole.n_latents != len(w)
    made = [reading.latents(w, b, part, learned_bias, signed=signed) if part is not None else None for part in parts]
    return _run(_slices(rows[keep]), _slices(rows[~keep]), made, w, b, lam, learned_bias, settings)


def _run(
    rows: RowsInOrder,
    held: RowsInOrder,
    made: list[Latents | None],
    w: np.ndarray,
    b: np.ndarray,
    lam: float | None,
    learned_bias: bool,
    settings: CertifySettings,
) -> Certification:
    first, second = made
    if first is None:
        lam = check_lam(_needed(lam))
        first = resolve_rows(rows, w, b, lam, learned_bias)
        second = resolve_rows(held, w, b, lam, learned_bias) if settings.about == "population" else None
    lam = _implied(rows, first) if lam is None else check_lam(lam)
    return certify_latents(rows, first, lam, settings, second if settings.about == "population" else None)


def _slices(rows: np.ndarray) -> RowsInOrder:
    """Rows in memory, a batch at a time."""
    return lambda: (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def _in_order(source: RowSource, n_latents: int) -> RowsInOrder:
    """Rows of a source, in batches that leave room for a product with every latent."""
    size = max(64, min(BATCH, PRODUCTS // n_latents))
    return lambda: (batch.x.double().numpy() for batch in source.in_order(size))


def _needed(lam: float | None) -> float:
    if lam is None:
        raise refuse(
            "lam", "be given to solve for the codes", "nothing", f"It is half of the l1 coefficient. {OWN_LAM}"
        )
    return lam


def _implied(rows: RowsInOrder, latents: Latents) -> float:
    """The λ that the codes behave like, from one pass over the rows."""
    n, moment, mass = 0, 0.0, 0.0
    for x, z in pair_with_codes(rows, latents)():
        r = x - latents.bias - z @ latents.atoms
        n, moment, mass = n + len(x), moment + z.T @ r, mass + np.asarray(z.sum(0)).ravel()
    lam = implied_lam(np.asarray(mass) / n, np.asarray(moment) / n, latents.atoms)
    if not lam > 0:
        fix = f"Give half of the l1 coefficient it was trained with. {OWN_LAM}"
        raise refuse("lam", "be given: the codes show no shrinkage to read it from", f"{lam:.3g}", fix)
    return lam


def _featurizer(
    f: Featurizes,
    data: Any,
    codes: Codes,
    lam: float | None,
    learned_bias: bool,
    settings: CertifySettings,
    split: str,
    max_rows: int | None,
    seed: int,
) -> Certification:
    if not isinstance(codes, str) or codes not in ("as-is", "resolved"):
        raise refuse("codes", "be 'as-is' or 'resolved' with a featurizer", type(codes).__name__, "It has its own.")
    source, held = _sources(data, split, settings.about, seed)
    if f.atoms.shape[1] != 1:
        return _blocks(f, _drawn(source, max_rows, seed), held, codes, lam, learned_bias, settings)
    w, b = f.atoms[:, 0].double().cpu().numpy(), f.bias.double().cpu().numpy()
    if source.d_in != w.shape[1]:
        raise refuse("store", f"have rows of width {w.shape[1]}", source.d_in, "Use the hook it was fitted on.")
    rows, away = _drawn(source, max_rows, seed), None if held is None else _drawn(held, max_rows, seed)
    notes = [L1_ONLY]
    made: list[Latents | None] = [None, None]
    if codes == "as-is":
        encoded = [None if part is None else _encode(f, part) for part in (rows, away)]
        signed = any(c is not None and bool((c.values < 0).any()) for c in encoded)
        made = [None if c is None else reading.latents(w, b, c, learned_bias, notes, signed) for c in encoded]
    # without held-out rows nothing is read from the second: certify about exactly these rows
    found = _run(
        _in_order(rows, len(w)),
        _in_order(rows if away is None else away, len(w)),
        made,
        w,
        b,
        lam,
        learned_bias,
        settings,
    )
    if codes == "resolved":
        found = replace(found, notes=(*notes, *found.notes))
    where = {"split": split} if isinstance(data, ActivationStore) else {}
    return replace(found, provenance={**found.provenance, "codes": codes, **where, "seed": seed})


def _blocks(
    f: Featurizes,
    rows: RowSource,
    held: RowSource | None,
    codes: Codes,
    lam: float | None,
    learned_bias: bool,
    settings: CertifySettings,
) -> Certification:
    """Blocks of several dimensions: conditions and pair screens (see `optimality.blocks`)."""
    if codes != "as-is":
        raise refuse("codes", "be 'as-is' for blocks", repr(codes), "Solve them with optimality.blocks.resolve first.")
    if lam is None:
        raise refuse("lam", "be given for blocks", "nothing", f"It weighs 2·lam·Σ‖z_g‖. {OWN_LAM}")
    lam = check_lam(lam)
    frames, bias = f.atoms.double().cpu(), f.bias.double().cpu()
    away = None if held is None else _encode(f, held)
    found = certify_blocks(
        rows,
        _encode(f, rows),
        frames,
        bias,
        lam,
        learned_bias,
        held=away,
        splits=settings.splits,
        wide=settings.wide,
    )
    notes = (L1_ONLY.replace("L1", "ℓ2,1"), *found.notes)
    provenance = {"rows": len(rows), "latents": len(frames), "width": rows.d_in, "codes": codes}
    if held is not None:
        provenance["held_out_rows"] = len(held)
    return Certification(found.features, found.numbers, found.kkt, lam, settings.about, learned_bias, notes, provenance)


def _away(n: int, seed: int) -> np.ndarray:
    """Which of n rows in memory are held out."""
    if n < 5:
        raise refuse("x", "hold at least 5 rows, a fifth of them to hold out", n, "Use about='rows'.")
    away = np.zeros(n, bool)
    away[np.random.default_rng(seed).permutation(n)[: int(HELD_OUT * n)]] = True
    return away


def _sources(data: Any, split: str, about: About, seed: int) -> tuple[RowSource, RowSource | None]:
    """Rows to certify on, and rows held out."""
    if data is None:
        raise refuse("store", "be given", "nothing", "certify(featurizer, store, lam=...)")
    if isinstance(data, ActivationStore):
        if about == "population" and split == "test":
            raise refuse("split", "not be the one held out, 'test'", repr(split), "Use 'train', or about='rows'.")
        return data.rows(split), data.rows("test") if about == "population" else None
    rows = as_rows(data, "store")
    if about == "rows":
        return rows, None
    x, away = _matrix(rows), _away(len(rows), seed)
    return ArrayRows(x[~away]), ArrayRows(x[away])


def _drawn(source: RowSource, max_rows: int | None, seed: int) -> RowSource:
    if max_rows is None or max_rows >= len(source):
        return source
    return ArrayRows(source.batch(0, max_rows, seed).x)


def _encode(f: Featurizes, source: RowSource) -> Code:
    return Code.cat([f.encode(batch.x).to("cpu") for batch in source.in_order(BATCH)])


def _matrix(source: RowSource) -> np.ndarray:
    return torch.cat([batch.x for batch in source.in_order(BATCH)]).double().numpy()
