"""From a certification to what is kept of it on disk and shown on a page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import read_json
from monoseme.core.parse import Entry
from monoseme.explorer.static import check_pages, write_certificates
from monoseme.optimality import Certification
from monoseme.records import CertificateSettings, CertificateTable, FeatureColumns, PairPoints
from monoseme.records.certificates import TABLE, VERDICTS, check_place

__all__ = ["OPTIONS", "certificate_page", "certificates_record", "check_out", "fingerprint"]

POINTS = 4000  # pairs that are kept, of the largest strain: more could not be told apart on a chart
PAGES = "certificate"  # folder of the page, beside the record
OPTIONS = "Options"  # fact that says what the record was asked for
KNOWN_AS = {"rows": "Rows", "held_out_rows": "Rows held out", "width": "Width of a row", "codes": "Codes",
            "split": "Split", "seed": "Seed"}  # fmt: skip
LEFT_OUT = ("latents",)  # "Features" says it


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
        (G, d) atoms of the dictionary, if the certification does not hold its own. The chart of pairs has a point for
        each feature beside the one that strains it most; without atoms, none.
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
        "Verdicts about": certification.subject,
        "Bias": bias,
        **{KNOWN_AS.get(n, n): _said(value) for n, value in certification.provenance.items() if n not in LEFT_OUT},
        "Versions": f"monoseme {version('monoseme')}, numpy {np.__version__}",
    }
    return CertificateTable(
        title or "Certificates",
        CertificateSettings(float(certification.lam), certification.about, certification.learned_bias),
        columns,
        _pairs(columns, certification.atoms if atoms is None else _halves(columns, atoms)),
        numbers=tuple(certification.numbers.values()),
        kkt=tuple(certification.kkt.values()),
        facts=said,
        notes=tuple(certification.notes),
    )


def certificate_page(table: CertificateTable, out: Path | str) -> Path:
    """Keep the record in `out` and write its page; returns the path of the page.

    A record that is there is replaced only by one of the same options, or where none were named by the same one.

    Raises
    ------
    UserError
        When `out` holds another record, or a record or page that this function did not write; nothing is changed then.
    """
    options = table.facts.get(OPTIONS)
    check_out(out, options)
    if options is None and not _same(table, out):
        raise refuse("out", "hold no other certificates", out, "Choose another folder; nothing was changed.")
    page = write_certificates(table, Path(out) / PAGES)
    table.save(out)
    return page


def check_out(out: Path | str, options: str | None = None) -> None:
    """Refuse a folder in which `certificate_page` would replace what is not its own: before minutes of work.

    That is what it did not write, and a record made with other `options`.
    """
    check_place(out)
    check_pages(Path(out) / PAGES)
    earlier = _kept_facts(out)
    if options is not None and earlier is not None and earlier.get(OPTIONS) != options:
        got = f"{out}, made with: {earlier.get(OPTIONS, 'others')}"
        raise refuse("out", "hold no certificates of other options", got, "Choose another folder; nothing was changed.")


def _kept_facts(folder: Path | str) -> Mapping[str, str] | None:
    """Return the facts of a table that is kept in `folder`, without reading its columns; ``None`` where none is."""
    path = Path(folder) / TABLE
    if not path.is_file():
        return None
    return dict(fact.pair(str, str) for fact in Entry(read_json(path), str(path)).items("facts"))


def fingerprint(*parts: Any) -> str:
    """Twelve hexadecimal digits of what was certified: the same for the same tensors, arrays and plain values."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.nn.Module):
            for name, tensor in part.state_dict().items():
                total.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
        elif isinstance(part, np.ndarray):
            total.update(np.ascontiguousarray(part).tobytes())
        else:
            total.update(json.dumps(part, sort_keys=True, default=str).encode())
    return total.hexdigest()[:12]


def _same(table: CertificateTable, out: Path | str) -> bool:
    """Whether `out` holds nothing that `table` would not hold as well."""
    if _kept_facts(out) is None:
        return True
    try:
        earlier = CertificateTable.load(out)
    except UserError:
        return True  # damaged: nothing could read it
    facts = [{name: fact for name, fact in t.facts.items() if name != "Versions"} for t in (earlier, table)]
    mine, its = ({name: np.asarray(c).tolist() for name, c in vars(t.features).items()} for t in (table, earlier))
    return mine == its and facts[0] == facts[1] and earlier.settings == table.settings


def _said(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


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


def _halves(columns: FeatureColumns, atoms: Float[np.ndarray, "G d"]) -> Float[np.ndarray, "K d"] | None:
    """The atom of every feature, from those of the blocks; none for blocks of several dimensions."""
    w = atoms.astype(np.float64)
    w /= np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-300)
    return w[columns.block] * columns.side[:, None] if (columns.side != 0).all() else None


def _pairs(columns: FeatureColumns, atoms: Float[np.ndarray, "K d"] | None) -> PairPoints:
    """Every feature beside the one that strains it most; the pairs of the largest strain."""
    if atoms is None:
        none, empty = np.zeros(0, np.int32), np.zeros(0)
        return PairPoints(none, none, empty, empty)
    first = np.flatnonzero(columns.strain_partner >= 0)
    first = first[np.argsort(-columns.strain[first], kind="stable")[:POINTS]]
    second = columns.strain_partner[first]
    cosine = (atoms[first] * atoms[second]).sum(1)
    return PairPoints(first.astype(np.int32), second, columns.strain[first], np.clip(cosine, -1, 1))
