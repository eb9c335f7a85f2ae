"""From a certification to what is kept of it on disk and shown on a page."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jaxtyping import Float

from monoseme.core.errors import refuse
from monoseme.explorer.static import check_pages, write_certificates
from monoseme.optimality import Certification
from monoseme.records import CertificateSettings, CertificateTable, FeatureColumns, PairPoints
from monoseme.records.certificates import VERDICTS, check_place

__all__ = ["certificate_page", "certificates_record", "check_out"]

POINTS = 4000  # pairs that are kept, of the largest strain: more could not be told apart on a chart
PAGES = "certificate"  # folder of the page, beside the record


def certificates_record(
    certification: Certification,
    atoms: Float[np.ndarray, "G d"] | None = None,
    *,
    title: str = "",
    facts: Mapping[str, str] | None = None,
) -> CertificateTable:
    """Gather what a page shows of a certification.

    Parameters
    ----------
    certification
        The verdicts.
    atoms
        (G, d) atoms of the dictionary. With them the chart of pairs has points, each feature beside the one that
        strains it most; without, none.
    title
        Heading of the page.
    facts
        Short texts said of how it was made, before λ and the versions.
    """
    columns = _columns(certification)
    if atoms is not None and len(atoms) <= columns.block.max(initial=-1):
        most = int(columns.block.max())
        raise refuse("atoms", f"hold the atom of every block, up to {most}", len(atoms), "Give those certified.")
    bias = "learned (hull condition)" if certification.learned_bias else "fixed (cone condition)"
    said = {
        **(facts or {}),
        "Features": f"{len(columns):,}",
        "λ": f"{certification.lam:.6g}",
        "Verdicts about": "exactly these rows" if certification.about == "rows" else "the population of rows",
        "Bias": bias,
        **{str(name): str(value) for name, value in certification.provenance.items()},
        "Versions": f"monoseme {version('monoseme')}, numpy {np.__version__}",
    }
    return CertificateTable(
        title or "Certificates",
        CertificateSettings(float(certification.lam), certification.about, certification.learned_bias),
        columns,
        _pairs(columns, atoms),
        numbers=tuple(certification.numbers.values()),
        kkt=tuple(certification.kkt.values()),
        facts=said,
        notes=tuple(certification.notes),
    )


def certificate_page(table: CertificateTable, out: Path | str) -> Path:
    """Keep the record in `out` and write its page; returns the path of the page.

    Raises
    ------
    UserError
        When `out` holds a record or a page that this function did not write; nothing is changed then.
    """
    check_out(out)
    page = write_certificates(table, Path(out) / PAGES)
    table.save(out)
    return page


def check_out(out: Path | str) -> None:
    """Refuse a folder in which `certificate_page` would replace what it did not write: before minutes of work."""
    check_place(out)
    check_pages(Path(out) / PAGES)


def _columns(certification: Certification) -> FeatureColumns:
    features = certification.features
    for j, feature in enumerate(features):
        if feature.feature != j:
            raise refuse("certification", f"have feature {j} in place {j}", feature.feature, "Certify all features.")
    counts = [len(feature.partners) for feature in features]
    ragged = [np.array(feature.partners, np.int32) for feature in features]

    def column(name: str, kind: type) -> np.ndarray:
        return np.array([getattr(feature, name) for feature in features], kind)

    return FeatureColumns(
        block=column("block", np.int64),
        side=column("side", np.int8),
        verdict=np.array([VERDICTS.index(feature.verdict) for feature in features], np.int8),
        removable_loss=column("removable_loss", np.float64),
        violation_lower=column("violation_lower", np.float64),
        violation_upper=column("violation_upper", np.float64),
        strain=column("strain", np.float64),
        strain_partner=column("strain_partner", np.int32),
        density=column("density", np.float64),
        antipode_gain=column("antipode_gain", np.float64),
        split_gain=column("split_gain", np.float64),
        partner_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        partners=np.concatenate([np.zeros(0, np.int32), *ragged]),
        why=tuple(feature.why for feature in features),
    )


def _pairs(columns: FeatureColumns, atoms: Float[np.ndarray, "G d"] | None) -> PairPoints:
    """Every feature beside the one that strains it most; the pairs of the largest strain."""
    if atoms is None or not (columns.side != 0).all():  # a block of several dimensions has no one atom
        none, empty = np.zeros(0, np.int32), np.zeros(0)
        return PairPoints(none, none, empty, empty)
    first = np.flatnonzero(columns.strain_partner >= 0)
    first = first[np.argsort(-columns.strain[first], kind="stable")[:POINTS]]
    second = columns.strain_partner[first]
    w = atoms.astype(np.float64)
    w /= np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-300)
    one, other = (w[columns.block[index]] * columns.side[index, None] for index in (first, second))
    return PairPoints(first.astype(np.int32), second, columns.strain[first], np.clip((one * other).sum(1), -1, 1))
