"""A certification on disk, proofs included: columns as safetensors, words and numbers as JSON. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monoseme.core.errors import refuse
from monoseme.core.files import read_json, sha256, write_json, write_tensors
from monoseme.core.parse import Entry
from monoseme.optimality.certification import Certification, FeatureCertificate, Verdict, Witness

__all__ = ["load", "save"]

FORMAT, VERSION = "monoseme.certification", 1
WORDS, ARRAYS = "certification.json", "certification.safetensors"
VERDICTS: tuple[Verdict, ...] = ("stable", "unstable", "unknown")
OTHER = ("verdict", "why", "partners", "witness")  # fields of a certificate that are no column of numbers
NUMBERS = {
    f.name: np.int64 if f.type == "int" else np.float64 for f in fields(FeatureCertificate) if f.name not in OTHER
}
AGAIN = "Certify again, and save into another folder."


def save(c: Certification, folder: Path | str) -> Path:
    """Write it; see `Certification.save`."""
    folder = Path(folder)
    for name in (WORDS, ARRAYS):
        if (folder / name).exists():
            raise refuse("folder", f"hold no {name} yet", folder, "Choose another folder; nothing was changed.")
    write_tensors(folder / ARRAYS, {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in _arrays(c).items()})
    kinds = [None if f.witness is None else f.witness.kind for f in c.features]
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "lam": float(c.lam),
        "about": c.about,
        "learned_bias": c.learned_bias,
        "notes": list(c.notes),
        "provenance": dict(c.provenance),
        "numbers": [outcome.to_json() for outcome in c.numbers.values()],
        "kkt": [outcome.to_json() for outcome in c.kkt.values()],
        "verdicts": [f.verdict for f in c.features],
        "why": [f.why for f in c.features],
        "witnesses": kinds,
    }
    write_json(folder / WORDS, plain | {"arrays_sha256": sha256(folder / ARRAYS)})
    return folder


def _arrays(c: Certification) -> dict[str, np.ndarray]:
    made = {name: np.array([getattr(f, name) for f in c.features], kind) for name, kind in NUMBERS.items()}
    made |= _ragged("partners", [np.array(f.partners, np.int64) for f in c.features])
    proofs = [f.witness or Witness("rows", np.zeros(0, np.int64), np.zeros(0)) for f in c.features]
    made |= _ragged("index", [np.asarray(w.index, np.int64) for w in proofs])
    made |= _ragged("weight", [np.asarray(w.weight, np.float64).ravel() for w in proofs])
    # a move has a row for each dimension of the block; everything else is one column
    made["width"] = np.array([w.weight.shape[1] if w.weight.ndim == 2 else 0 for w in proofs], np.int64)
    made["offset"] = np.array([w.offset for w in proofs], np.float64)
    return made if c.atoms is None else made | {"atoms": np.asarray(c.atoms, np.float64)}


def _ragged(name: str, parts: list[np.ndarray]) -> dict[str, np.ndarray]:
    ends = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64)
    return {name: np.concatenate([np.zeros(0, parts[0].dtype if parts else np.int64), *parts]), f"{name}_ptr": ends}


def load(folder: Path | str) -> Certification:
    """Read it; see `Certification.load`."""
    from safetensors.numpy import load_file

    folder = Path(folder)
    root = Entry(read_json(folder / WORDS), str(folder / WORDS))
    if root.get("format", str) != FORMAT or root.get("version", int) != VERSION:
        raise refuse("folder", f"hold a certification of version {VERSION}", root.path, AGAIN)
    if not (folder / ARRAYS).is_file() or sha256(folder / ARRAYS) != root.get("arrays_sha256", str):
        raise refuse("folder", f"hold the {ARRAYS} that {WORDS} names", folder, AGAIN)
    try:  # the sum says that the arrays are those written with these words; the words themselves may have been edited
        return _read(root, load_file(folder / ARRAYS))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise refuse("folder", "hold a sound certification", f"{root.path} ({error})", AGAIN) from None


def _read(root: Entry, arrays: Mapping[str, np.ndarray]) -> Certification:
    kept = root.mapping()
    verdicts, why, kinds = (kept[name] for name in ("verdicts", "why", "witnesses"))
    if len({len(verdicts), len(why), len(kinds), len(arrays["feature"])}) != 1 or set(verdicts) - set(VERDICTS):
        raise ValueError("as many verdicts, reasons and proofs as features are wanted")
    if kept["about"] not in ("rows", "population"):
        raise ValueError("about is neither rows nor population")
    return Certification(
        features=tuple(_feature(arrays, j, verdicts[j], str(why[j]), kinds[j]) for j in range(len(verdicts))),
        numbers={o.name: o for o in (entry.outcome() for entry in root.items("numbers"))},
        kkt={o.name: o for o in (entry.outcome() for entry in root.items("kkt"))},
        lam=float(kept["lam"]),
        about=kept["about"],
        learned_bias=bool(kept["learned_bias"]),
        notes=tuple(str(note) for note in kept["notes"]),
        provenance=dict(kept["provenance"]),
        atoms=arrays.get("atoms"),
    )


def _feature(arrays: Mapping[str, np.ndarray], j: int, verdict: Verdict, why: str, kind: Any) -> FeatureCertificate:
    def part(name: str) -> np.ndarray:
        start, stop = arrays[f"{name}_ptr"][j : j + 2]
        return arrays[name][start:stop]

    weight, width = part("weight"), int(arrays["width"][j])
    proof = None
    if kind is not None:
        shaped = weight.reshape(-1, width) if width else weight
        proof = Witness(kind, part("index"), shaped, float(arrays["offset"][j]))
    numbers = {name: arrays[name][j].item() for name in NUMBERS}
    return FeatureCertificate(
        **numbers, verdict=verdict, why=why, partners=tuple(part("partners").tolist()), witness=proof
    )
