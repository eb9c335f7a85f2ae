"""`certify` and `page` as a user calls them: defaults, units of λ, the page from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.optimality.test_certify import planted

import monoseme as ms
from monoseme import UserError
from monoseme.optimality import CertifySettings
from monoseme.records import CertificateTable


def test_about_is_rows_for_arrays_and_population_for_a_featurizer_even_on_an_array() -> None:
    x, w, z, b = planted(k=8, n=300, d=12)
    assert ms.certify(x, w, z, b, 0.05).about == "rows"
    assert ms.certify(x, w, z, b, 0.05, settings=CertifySettings(about="population")).about == "population"
    f = ms.featurizers.TopK(12, 8, k=2, seed=0).fit(x.astype(np.float32), steps=5)
    found = ms.certify(f, x.astype(np.float32), lam=0.05)
    assert (found.about, found.provenance["rows"], found.provenance["held_out_rows"]) == ("population", 240, 60)
    assert "split" not in found.provenance
    assert ms.certify(f, x.astype(np.float32), lam=0.05, about="rows").about == "rows"


def test_raw_lam_is_scale_times_the_lam_of_the_fit() -> None:
    """The loss of training, in its units, is the certified one ÷ scale²."""
    x, _, _, _ = planted(k=8, n=400, d=12)
    f = ms.featurizers.ReLU(12, 8, seed=0).fit(x.astype(np.float32), steps=50, lam=0.3)
    scale = float(f.units.scale)
    found = ms.certify(f, x.astype(np.float32), lam=0.3 * scale, about="rows")
    code, rows = f.encode(torch.from_numpy(x.astype(np.float32))), torch.from_numpy(x.astype(np.float32))
    trained = ((rows - f.decode(code)) / scale).square().sum(1).mean() + 2 * 0.3 * (code.values / scale).sum() / 400
    assert found.loss.value == pytest.approx(float(trained) * scale**2, rel=1e-4)


def test_a_page_and_its_record_from_python(tmp_path: Path) -> None:
    x, w, z, b = planted(k=16, n=600, d=24, pairs=1)
    found = ms.certify(x, w, z, b, 0.05)
    page = ms.page(found, out=tmp_path / "out", title="Mine")
    assert page == tmp_path / "out" / "certificate" / "index.html"
    table = CertificateTable.load(tmp_path / "out")
    assert (table.title, table.facts["Rows"], len(table.pairs) > 0) == ("Mine", "600", True)
    np.testing.assert_allclose(table.pairs.cosine, (w[table.pairs.first] * w[table.pairs.second]).sum(1), atol=1e-12)
    assert ms.page(found, out=tmp_path / "out") == page  # the same again
    with pytest.raises(UserError, match=r"^out must hold no other certificates"):
        ms.page(ms.certify(x, w, z, b, 0.06), out=tmp_path / "out")
    assert CertificateTable.load(tmp_path / "out").settings.lam == 0.05


BAD = {
    "page without a folder": (lambda x, w, z, b: ms.page(ms.certify(x, w, z, b, 0.1)), "out"),
    "page with a store": (
        lambda x, w, z, b: ms.page(ms.certify(x, w, z, b, 0.1), ms.ActivationStore.__new__(ms.ActivationStore)),
        "store",
    ),
    "no lam to solve with": (lambda x, w, z, b: ms.certify(x, w, "resolved", b), "lam"),
    "huge rows": (lambda x, w, z, b: ms.certify(x * 1e160, w, z, b, 0.1), "x"),
    "huge codes": (lambda x, w, z, b: ms.certify(x, w, z * 1e160, b, 0.1), "codes"),
    "huge lam": (lambda x, w, z, b: ms.certify(x, w, z, b, 1e160), "lam"),
    "huge rows in the wide limit": (lambda x, w, z, b: ms.optimality.wide_limit(x * 1e160, 0.1), "x"),
    "huge values": (lambda x, w, z, b: ms.optimality.rank_one(x[:, 0] * 1e160, 0.1), "values"),
    "too many atoms": (lambda x, w, z, b: ms.optimality.solve(x, 10**12, 0.1), "n_atoms"),
    "atoms whose products do not fit": (lambda x, w, z, b: ms.optimality.solve(x, 20_000, 0.1), "n_atoms"),
    "tol of solve": (lambda x, w, z, b: ms.optimality.solve(x, 2, 0.1, tol=float("nan")), "tol"),
    "tol NaN": (lambda x, w, z, b: ms.optimality.wide_limit(x, 0.1, tol=float("nan")), "tol"),
    "tol negative": (lambda x, w, z, b: ms.optimality.wide_limit(x, 0.1, tol=-1.0), "tol"),
    "ray cosine NaN": (lambda x, w, z, b: ms.optimality.wide_limit(x, 0.1, ray_cosine=float("nan")), "ray_cosine"),
    "ray cosine zero": (lambda x, w, z, b: ms.optimality.wide_limit(x, 0.1, ray_cosine=0.0), "ray_cosine"),
    "excess zero": (lambda x, w, z, b: ms.optimality.cover(x, b, 0.1, 0.0), "excess"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str) -> None:
    call, name = BAD[case]
    with pytest.raises(UserError, match=rf"^{name} must") as caught:
        call(*planted(k=8, n=60, d=6))
    assert "\n" not in str(caught.value)
