"""`CertificateTable`: what was proved about the features of a dictionary, as it is kept on disk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int8, Int32, Int64

from monoseme.core.errors import UserError, refuse
from monoseme.core.files import read_json, sha256, write_json, write_tensors
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry

__all__ = [
    "TABLE",
    "VERDICTS",
    "CertificateSettings",
    "CertificateTable",
    "FeatureColumns",
    "PairPoints",
    "check_place",
]

FORMAT, VERSION = "monoseme.certificates", 1
TABLE, ARRAYS = "certificates.json", "certificates.safetensors"
VERDICTS = ("stable", "unstable", "unknown")  # what the numbers in the column `verdict` stand for


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """What is known of the features; row j of every column is feature j.

    Attributes
    ----------
    block, side
        (K,) the block of the dictionary, and which half of it: +1, -1, or 0 for a block of several dimensions.
    verdict
        (K,) position in `VERDICTS`.
    removable_loss
        (K,) loss that is removed for certain, units of ‖x‖²; 0 unless unstable.
    violation_lower, violation_upper
        (K,) bounds of D_j; the upper one may be infinite.
    strain, strain_partner
        (K,) lower bound of κ_j (at least 1, may be infinite) and the feature it comes from, or -1.
    density
        (K,) share of rows on which the feature is active.
    antipode_gain, split_gain
        (K,) loss that the atom -w, or two rotated copies, remove at least; units of ‖x‖².
    partner_ptr, partners
        Feature j has the partners ``partners[partner_ptr[j]:partner_ptr[j + 1]]``, largest share first.
    why
        The reason of each verdict, a sentence.
    """

    block: Int64[np.ndarray, " K"]
    side: Int8[np.ndarray, " K"]
    verdict: Int8[np.ndarray, " K"]
    removable_loss: Float64[np.ndarray, " K"]
    violation_lower: Float64[np.ndarray, " K"]
    violation_upper: Float64[np.ndarray, " K"]
    strain: Float64[np.ndarray, " K"]
    strain_partner: Int32[np.ndarray, " K"]
    density: Float64[np.ndarray, " K"]
    antipode_gain: Float64[np.ndarray, " K"]
    split_gain: Float64[np.ndarray, " K"]
    partner_ptr: Int64[np.ndarray, " K_plus_one"]
    partners: Int32[np.ndarray, " m"]
    why: tuple[str, ...]

    def __post_init__(self) -> None:
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "why"}
        _sound(arrays, RAGGED, len(self.why))
        ptr, most = self.partner_ptr, len(self.why)
        if len(ptr) != most + 1 or ptr[0] != 0 or ptr[-1] != len(self.partners) or (np.diff(ptr) < 0).any():
            raise refuse("partner_ptr", f"rise from 0 to {len(self.partners)} in {most} steps", ptr, "See `partners`.")
        _inside("partners", self.partners, 0, most)
        _inside("strain_partner", self.strain_partner, -1, most)
        _inside("verdict", self.verdict, 0, len(VERDICTS))

    def __len__(self) -> int:
        return len(self.why)

    def partners_of(self, feature: int) -> list[int]:
        """Partners of one feature, largest share first."""
        return self.partners[self.partner_ptr[feature] : self.partner_ptr[feature + 1]].tolist()


@dataclass(frozen=True, eq=False)
class PairPoints:
    """Pairs of features for a chart: lower bound of the strain of `first` beside `second`, and their atoms' cosine."""

    first: Int32[np.ndarray, " m"]
    second: Int32[np.ndarray, " m"]
    strain: Float64[np.ndarray, " m"]
    cosine: Float64[np.ndarray, " m"]

    def __post_init__(self) -> None:
        _sound(dict(vars(self)), (), len(self.first))
        if (np.abs(self.cosine) > 1 + 1e-6).any():
            raise refuse("cosine", "lie between -1 and 1", float(np.abs(self.cosine).max()), "Atoms are of norm 1.")

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class CertificateSettings:
    """λ of E‖zW + b - x‖² + 2λ‖z‖₁, what the verdicts are about, and whether the bias is free to move."""

    lam: float
    about: Literal["rows", "population"]
    learned_bias: bool

    def __post_init__(self) -> None:
        if not 0 < self.lam < math.inf:
            raise refuse("lam", "be positive and finite", self.lam, "It is the λ of the certification.")


@dataclass(frozen=True, eq=False)
class CertificateTable:
    """Verdicts on a dictionary: what a certificate page shows.

    Attributes
    ----------
    title
        What it is called.
    settings
        See `CertificateSettings`.
    features, pairs
        A row a feature; a point a pair.
    numbers, kkt
        Numbers of the whole, and the audit of the first-order conditions K1-K3.
    facts
        Short texts in the order to show them.
    notes
        What the verdicts do not mean, and what was changed on the way; a sentence each.
    """

    title: str
    settings: CertificateSettings
    features: FeatureColumns
    pairs: PairPoints
    numbers: tuple[Outcome, ...] = ()
    kkt: tuple[Outcome, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            _inside(name, getattr(self.pairs, name), 0, len(self.features))

    def count(self, verdict: Literal["stable", "unstable", "unknown"]) -> int:
        """How many features have this verdict."""
        return int((self.features.verdict == VERDICTS.index(verdict)).sum())

    def save(self, folder: Path | str) -> Path:
        """Write certificates.json and certificates.safetensors into `folder`; other files there are left alone.

        Raises
        ------
        UserError
            When a file of that name is there that `save` did not write.
        """
        folder = Path(folder)
        check_place(folder)
        columns = {f"features.{name}": value for name, value in vars(self.features).items() if name != "why"}
        points = {f"pairs.{name}": value for name, value in vars(self.pairs).items()}
        write_tensors(folder / ARRAYS, {name: torch.from_numpy(value) for name, value in (columns | points).items()})
        plain = {
            "format": FORMAT,
            "version": VERSION,
            "title": self.title,
            "settings": vars(self.settings),
            "numbers": [outcome.to_json() for outcome in self.numbers],
            "kkt": [outcome.to_json() for outcome in self.kkt],
            "facts": [[name, text] for name, text in self.facts.items()],
            "notes": list(self.notes),
            "why": list(self.features.why),
        }
        write_json(folder / TABLE, plain | {"arrays_sha256": sha256(folder / ARRAYS)})
        return folder

    @classmethod
    def load(cls, folder: Path | str) -> CertificateTable:
        """Read a table; anything damaged, foreign or newer is refused in one line that names the file."""
        folder = Path(folder)
        root = Entry(read_json(folder / TABLE), str(folder / TABLE))
        if root.get("format", str) != FORMAT or root.get("version", int) != VERSION:
            fix = "Make them again with this version of monoseme."
            raise refuse("folder", f"hold certificates of version {VERSION}", root.path, fix)
        if not (folder / ARRAYS).is_file() or sha256(folder / ARRAYS) != root.get("arrays_sha256", str):
            fix = "The pair was mixed up or damaged; make it again."
            raise refuse("folder", f"hold the {ARRAYS} that {TABLE} names", folder, fix)
        settings = Entry(root.get("settings", dict), f"{root.path}: settings")
        why = tuple(_text(entry) for entry in root.items("why"))
        try:
            arrays = _arrays(folder / ARRAYS, len(why))
            return cls(
                title=root.get("title", str),
                settings=_settings(settings),
                features=FeatureColumns(why=why, **arrays["features"]),
                pairs=PairPoints(**arrays["pairs"]),
                numbers=tuple(entry.outcome() for entry in root.items("numbers")),
                kkt=tuple(entry.outcome() for entry in root.items("kkt")),
                facts=dict(pair.pair(str, str) for pair in root.items("facts")),
                notes=tuple(_text(entry) for entry in root.items("notes")),
            )
        except UserError as error:
            what = "The file is damaged; make it again."
            raise refuse("folder", "hold sound certificates", f"{folder} ({error})", what) from None


def check_place(folder: Path | str) -> None:
    """Refuse a folder in which saving a table would replace a file that is not one of ours."""
    folder = Path(folder)
    fix = "Choose another folder; nothing was changed."
    if folder.exists() and not folder.is_dir():
        raise refuse("out", "be a folder", folder, fix)
    if not (folder / TABLE).exists():
        if (folder / ARRAYS).exists():
            raise refuse("out", f"hold no {ARRAYS} of another kind", folder, fix)
        return
    try:
        plain = read_json(folder / TABLE)
    except UserError:
        plain = None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise refuse("out", f"hold no {TABLE} of another kind", folder, fix)


KINDS: Mapping[str, Any] = {
    "block": np.int64, "side": np.int8, "verdict": np.int8, "partner_ptr": np.int64, "partners": np.int32,
    "strain_partner": np.int32, "first": np.int32, "second": np.int32,
}  # fmt: skip
RAGGED = ("partner_ptr", "partners")
FINITE = ("removable_loss", "violation_lower", "density", "antipode_gain", "split_gain", "cosine")


def _sound(arrays: Mapping[str, np.ndarray], ragged: tuple[str, ...], n: int) -> None:
    """Refuse columns of the wrong kind or length, and numbers that no column can hold."""
    for name, array in arrays.items():
        kind = np.dtype(KINDS.get(name, np.float64))
        if array.ndim != 1 or array.dtype != kind or (len(array) != n and name not in ragged):
            raise refuse(name, f"be a column of {n} {kind}", f"{array.dtype} of shape {array.shape}", "One a row.")
        wrong = ~np.isfinite(array) if name in FINITE else np.isnan(array) if kind.kind == "f" else np.zeros(0, bool)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise refuse(name, "be a number", f"{array[at]} in row {at}", "What is not known is no column.")


def _inside(name: str, array: np.ndarray, low: int, end: int) -> None:
    wrong = (array < low) | (array >= end)
    if wrong.any():
        raise refuse(name, f"be at least {low} and below {end}", int(array[np.argmax(wrong)]), "It names a row.")


def _arrays(path: Path, n: int) -> dict[str, dict[str, np.ndarray]]:
    """Read all columns: those there should be and no others, each of its kind and length."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = load_file(path)
    except SafetensorError as error:
        raise refuse("arrays", "be a safetensors file", error, "Make them again.") from None
    kinds = {"features": FeatureColumns, "pairs": PairPoints}
    names = {group: [f.name for f in fields(kind) if f.name != "why"] for group, kind in kinds.items()}
    wanted = {f"{group}.{name}" for group in names for name in names[group]}
    if wanted != set(found):
        raise refuse("arrays", "be those of certificates", sorted(wanted ^ set(found)), "Make them again.")
    columns = {group: {name: found[f"{group}.{name}"] for name in names[group]} for group in names}
    _sound(columns["features"], RAGGED, n)
    _sound(columns["pairs"], (), len(columns["pairs"]["first"].ravel()))
    return columns


def _settings(entry: Entry) -> CertificateSettings:
    lam, about = entry.mapping().get("lam"), entry.get("about", str)
    if isinstance(lam, bool) or not isinstance(lam, (int, float)):
        raise refuse(f"{entry.path}: lam", "be a number", repr(lam), "The file is damaged.")
    if about not in ("rows", "population"):
        raise refuse(f"{entry.path}: about", 'be "rows" or "population"', repr(about), "The file is damaged.")
    kind: Literal["rows", "population"] = "rows" if about == "rows" else "population"
    return CertificateSettings(float(lam), kind, entry.get("learned_bias", bool))


def _text(entry: Entry) -> str:
    if not isinstance(entry.value, str):
        raise refuse(entry.path, "be a text", type(entry.value).__name__, "The file is damaged.")
    return entry.value
