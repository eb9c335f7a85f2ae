"""A certification as text and on disk: what the table says, and that nothing is lost or taken on trust."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.certifications import made_certification
from tests.optimality.test_certify import planted

import monoseme as ms
from monoseme import UserError
from monoseme.optimality import Certification


def certified() -> Certification:
    x, w, z, b = planted(k=16, n=1500, d=24, pairs=2)
    return ms.certify(x, w, z, b, 0.05)


def blocks() -> Certification:
    x, _, _, _ = planted(k=16, n=600, d=12)
    f = ms.featurizers.Grassmannian(12, 8, 2, k=2, seed=0).fit(x.astype(np.float32), steps=20)
    return ms.certify(f, x.astype(np.float32), lam=0.05)


def test_the_repr_is_short_and_says_what_it_is_about() -> None:
    found = certified()
    assert repr(found) == (
        "Certification(16 features: 2 unstable, 14 stable, 0 not known; lam 0.05, about exactly these 1,500 rows)"
    )


def test_the_table_says_lam_rows_and_why_of_the_unknown() -> None:
    found = made_certification(400)
    said = found.table(5)
    lines = said.splitlines()
    open_ = [f for f in found.features if f.verdict == "unknown"]
    assert (
        lines[0]
        == f"400 features: {found.count('unstable')} unstable, {found.count('stable')} stable, {len(open_)} not known"
    )
    dead = sum("never active" in f.why for f in open_)
    assert f"  not known: {dead} because it is never active on these rows" in lines
    assert sum(found.reasons().values()) == len(open_)
    assert "about exactly these 20,000 rows; λ 0.05; learned bias" in lines
    assert "k1 active" in said
    assert "0.0312 λ" in said
    assert sum(" is unstable: " in line for line in lines) == 5
    assert f"5 of {found.count('unstable')} unstable, by the loss" in said


def test_reasons_leave_out_what_is_of_one_feature() -> None:
    why = [f"held-out rows speak against the certificate: {n} of 400 (at most 1.0% may)" for n in (7, 9)]
    found = made_certification(8)
    first = [replace(f, verdict="unknown", why=w) for f, w in zip(found.features[:2], why, strict=True)]
    rest = [replace(f, verdict="stable", why="holds: 3 rows") for f in found.features[2:]]
    reasons = replace(found, features=(*first, *rest)).reasons()
    assert reasons == {"held-out rows speak against the certificate": 2}


def test_no_bare_head_where_nothing_is_unstable() -> None:
    found = made_certification(8)
    calm = tuple(replace(f, verdict="stable", removable_loss=0.0) for f in found.features)
    said = replace(found, features=calm).table()
    assert said.endswith("\n\nno feature is proven unstable")
    assert "removable  strain" not in said


def same(one: Certification, two: Certification) -> None:
    assert one.table() == two.table()
    assert (one.lam, one.about, one.learned_bias, one.notes) == (two.lam, two.about, two.learned_bias, two.notes)
    assert one.provenance == two.provenance
    assert (one.atoms is None) == (two.atoms is None)
    if one.atoms is not None:
        np.testing.assert_array_equal(one.atoms, two.atoms)
    for f, g in zip(one.features, two.features, strict=True):
        left, right = vars(f) | {"witness": None}, vars(g) | {"witness": None}
        assert left == right
        assert (f.witness is None) == (g.witness is None)
        if f.witness is not None and g.witness is not None:
            assert (f.witness.kind, f.witness.offset) == (g.witness.kind, g.witness.offset)
            np.testing.assert_array_equal(f.witness.index, g.witness.index)
            np.testing.assert_array_equal(f.witness.weight, g.witness.weight)


@pytest.mark.parametrize("make", [certified, blocks, made_certification], ids=["scalars", "blocks", "made"])
def test_all_comes_back_proofs_included(tmp_path: Path, make) -> None:
    found = make()
    assert found.save(tmp_path / "kept") == tmp_path / "kept"
    same(found, Certification.load(tmp_path / "kept"))
    with pytest.raises(UserError, match=r"^folder must hold no certification\.json yet") as caught:
        found.save(tmp_path / "kept")
    assert "\n" not in str(caught.value)


DAMAGE = {
    "no file": lambda folder, plain: (folder / "certification.json").unlink(),
    "another format": lambda folder, plain: write(folder, plain | {"format": "mine"}),
    "another version": lambda folder, plain: write(folder, plain | {"version": 99}),
    "other arrays": lambda folder, plain: (folder / "certification.safetensors").write_bytes(b"x"),
    "no arrays": lambda folder, plain: (folder / "certification.safetensors").unlink(),
    "a verdict too few": lambda folder, plain: write(folder, plain | {"verdicts": plain["verdicts"][1:]}),
    "no verdict": lambda folder, plain: write(folder, plain | {"verdicts": ["fine"] * len(plain["verdicts"])}),
    "about nothing": lambda folder, plain: write(folder, plain | {"about": "me"}),
    "no notes": lambda folder, plain: write(folder, {k: v for k, v in plain.items() if k != "notes"}),
    "a number that is none": lambda folder, plain: write(folder, plain | {"kkt": [3]}),
}


def write(folder: Path, plain: dict) -> None:
    (folder / "certification.json").write_text(json.dumps(plain))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line(tmp_path: Path, damage: str) -> None:
    made_certification(8).save(tmp_path)
    DAMAGE[damage](tmp_path, json.loads((tmp_path / "certification.json").read_text()))
    with pytest.raises(UserError) as caught:
        Certification.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert " must " in str(caught.value)
