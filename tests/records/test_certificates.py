"""Certificates survive their folder bit for bit; what is damaged, mixed up or foreign is refused in one line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.certifications import made_atoms, made_certification

from monoseme.api.certificates_record import certificates_record
from monoseme.core.errors import UserError
from monoseme.core.files import sha256
from monoseme.records import CertificateSettings, CertificateTable

COUNT = 96


def table(features: int = COUNT) -> CertificateTable:
    facts = {"z": "last letter first", "a": "kept in order"}
    return certificates_record(made_certification(features), made_atoms(features), title="Title", facts=facts)


def test_everything_comes_back(tmp_path: Path):
    before = table()
    (tmp_path / "log.jsonl").write_text("kept")
    after = CertificateTable.load(before.save(tmp_path))
    for name in ("title", "settings", "numbers", "kkt", "notes"):
        assert getattr(after, name) == getattr(before, name), name
    assert list(after.facts.items()) == list(before.facts.items())
    for group in ("features", "pairs"):
        for name, value in vars(getattr(before, group)).items():
            other = getattr(getattr(after, group), name)
            np.testing.assert_array_equal(value, other, err_msg=name)
            assert isinstance(value, tuple) or value.dtype == other.dtype
    assert np.isinf(after.features.strain).any()
    assert (tmp_path / "log.jsonl").read_text() == "kept"


def test_the_record_says_what_the_certification_says():
    found, atoms = made_certification(COUNT), made_atoms(COUNT)
    kept = certificates_record(found, atoms)
    for j, feature in enumerate(found.features):
        assert kept.features.why[j] == feature.why
        assert kept.features.partners_of(j) == list(feature.partners)
        for name in ("removable_loss", "violation_lower", "violation_upper", "strain", "strain_partner", "density"):
            assert getattr(kept.features, name)[j] == getattr(feature, name)
    for verdict in ("stable", "unstable", "unknown"):
        assert kept.count(verdict) == sum(f.verdict == verdict for f in found.features) > 0
    strained = [f for f in found.features if f.strain_partner >= 0]
    assert len(kept.pairs) == len(strained)
    assert (np.diff(kept.pairs.strain[np.isfinite(kept.pairs.strain)]) <= 0).all()
    for first, second, strain, cosine in zip(*vars(kept.pairs).values(), strict=True):
        assert (second, strain) == (found.features[first].strain_partner, found.features[first].strain)
        np.testing.assert_allclose(cosine, float(atoms[first] @ atoms[second]), atol=1e-12)


def test_a_signed_scalar_is_two_features_of_opposite_atoms():
    made = made_certification(8)
    features = tuple(
        replace(f, block=f.feature // 2, side=1 - 2 * (f.feature % 2), strain_partner=f.feature ^ 1)
        for f in made.features
    )
    kept = certificates_record(replace(made, features=features), made_atoms(4))
    np.testing.assert_allclose(kept.pairs.cosine, -1.0, atol=1e-12)


def test_without_atoms_or_with_blocks_there_are_no_points():
    made = made_certification(16)
    assert len(certificates_record(made).pairs) == 0
    blocks = tuple(replace(f, side=0) for f in made.features)
    assert len(certificates_record(replace(made, features=blocks), made_atoms(16)).pairs) == 0


def test_no_feature_at_all_is_a_table_too(tmp_path: Path):
    made = replace(made_certification(8), features=())
    after = CertificateTable.load(certificates_record(made, made_atoms(8)).save(tmp_path))
    assert len(after.features) == len(after.pairs) == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda m: (replace(m, features=m.features[1:]), made_atoms(16)), "certification"),
        (lambda m: (m, made_atoms(15)), "atoms"),
        (lambda m: (replace(m, lam=0.0), None), "lam"),
        (lambda m: (replace(m, features=(replace(m.features[0], partners=(99,)), *m.features[1:])), None), "partners"),
        (lambda m: (replace(m, features=(replace(m.features[0], density=math.nan), *m.features[1:])), None), "density"),
        (
            lambda m: (replace(m, features=(replace(m.features[0], removable_loss=math.inf), *m.features[1:])), None),
            "removable_loss",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(change: Callable[..., Any], named: str):
    found, atoms = change(made_certification(16))
    with pytest.raises(UserError, match=rf"^{named} must") as error:
        certificates_record(found, atoms)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("lam", [math.nan, math.inf, 0.0, -0.1])
def test_lam_is_positive(lam: float):
    with pytest.raises(UserError, match=r"^lam must be positive"):
        CertificateSettings(lam, "rows", True)


def edited(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "certificates.json"
    plain = json.loads(file.read_text(encoding="utf-8"))
    edit(plain)
    file.write_text(json.dumps(plain), encoding="utf-8")


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "format": lambda p: p.update(format="other"),
    "version": lambda p: p.update(version=99),
    "version is true": lambda p: p.update(version=True),
    "title": lambda p: p.pop("title"),
    "title is a number": lambda p: p.update(title=3),
    "hash": lambda p: p.update(arrays_sha256="0" * 64),
    "lam": lambda p: p["settings"].update(lam="0.1"),
    "lam below": lambda p: p["settings"].update(lam=-1),
    "about": lambda p: p["settings"].update(about="everything"),
    "learned_bias": lambda p: p["settings"].update(learned_bias="yes"),
    "settings": lambda p: p.update(settings=[]),
    "an outcome": lambda p: p["numbers"][0].update(value="high"),
    "an outcome's field": lambda p: p["kkt"][0].update(colour="red"),
    "facts": lambda p: p.update(facts=[["one"]]),
    "notes": lambda p: p.update(notes=[1]),
    "a sentence": lambda p: p["why"].__setitem__(3, None),
    "sentences": lambda p: p["why"].pop(),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_json_is_refused_in_one_line(tmp_path: Path, name: str):
    table().save(tmp_path)
    edited(tmp_path, DAMAGE[name])
    refused(tmp_path)


def shifted(arrays: dict[str, np.ndarray], name: str, value: object) -> None:
    arrays[name] = arrays[name].copy()
    arrays[name][2] = value


BROKEN: dict[str, Callable[[dict[str, np.ndarray]], object]] = {
    "missing": lambda a: a.pop("features.strain"),
    "another": lambda a: a.update({"features.colour": np.zeros(COUNT)}),
    "another group": lambda a: a.update({"rows": np.zeros(COUNT)}),
    "kind": lambda a: a.update({"features.strain": a["features.strain"].astype(np.float32)}),
    "length": lambda a: a.update({"features.density": a["features.density"][1:]}),
    "shape": lambda a: a.update({"features.density": a["features.density"][:, None]}),
    "no verdict": lambda a: shifted(a, "features.verdict", 3),
    "no feature": lambda a: shifted(a, "features.strain_partner", COUNT),
    "not a number": lambda a: shifted(a, "features.strain", math.nan),
    "infinite loss": lambda a: shifted(a, "features.removable_loss", math.inf),
    "falling pointers": lambda a: shifted(a, "features.partner_ptr", -1),
    "pairs": lambda a: shifted(a, "pairs.second", -1),
    "cosine": lambda a: shifted(a, "pairs.cosine", 1.5),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_arrays_are_refused_in_one_line(tmp_path: Path, name: str):
    table().save(tmp_path)
    file = tmp_path / "certificates.safetensors"
    arrays = load_file(file)
    BROKEN[name](arrays)
    save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, file)
    refused(tmp_path, mixed=True)
    edited(tmp_path, lambda plain: plain.update(arrays_sha256=sha256(file)))
    refused(tmp_path)


def test_files_that_are_cut_or_missing(tmp_path: Path):
    with pytest.raises(UserError, match=r"certificates\.json"):
        CertificateTable.load(tmp_path)
    table().save(tmp_path)
    file = tmp_path / "certificates.safetensors"
    file.write_bytes(file.read_bytes()[:40])
    edited(tmp_path, lambda plain: plain.update(arrays_sha256=sha256(file)))
    refused(tmp_path)
    file.unlink()
    refused(tmp_path, mixed=True)


def refused(folder: Path, mixed: bool = False) -> None:
    with pytest.raises(UserError, match=re.escape(str(folder))) as error:
        CertificateTable.load(folder)
    assert "\n" not in str(error.value)
    assert ("mixed up" in str(error.value)) or not mixed


@pytest.mark.parametrize("name", ["certificates.json", "certificates.safetensors"])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, name: str):
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(UserError, match=r"^out must") as error:
        table(8).save(tmp_path)
    assert "\n" not in str(error.value)
    assert (tmp_path / name).read_text() == '{"mine": 1}'
    assert len(list(tmp_path.iterdir())) == 1


def test_ours_is_replaced(tmp_path: Path):
    table(8).save(tmp_path)
    table(16).save(tmp_path)
    assert len(CertificateTable.load(tmp_path).features) == 16
