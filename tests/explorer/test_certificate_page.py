"""The certificate page without a browser: what it says, and that nothing in a table becomes markup."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certifications import made_atoms, made_certification
from tests.explorer.test_pages import EVIL, Outline, read_script

import monoseme as ms
from monoseme.api.certificates_record import OPTIONS, certificate_page, certificates_record, check_out, fingerprint
from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome, unknown
from monoseme.explorer.static import write_certificates
from monoseme.records import CertificateTable


def made(features: int = 600) -> CertificateTable:
    return certificates_record(made_certification(features), made_atoms(features), title="A dictionary")


def unpack(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def index_of(folder: Path) -> dict[str, Any]:
    data = read_script(folder / "data" / "certificates.js", "certificates")
    assert isinstance(data, dict)
    return data


def test_the_page_says_what_was_found(tmp_path: Path):
    table = made()
    page = write_certificates(table, tmp_path / "page").read_text(encoding="utf-8")
    outline = Outline(page)
    assert {"h1", "nav", "main", "table", "svg", "form", "aside"} <= set(outline.tags)
    bad, good, open_ = (table.count(v) for v in ("unstable", "stable", "unknown"))
    assert f"{bad} of 600 features are unstable, {good} stable; of {open_} it is not known." in page
    assert "exactly the rows measured" in page
    for text in (
        *table.notes,
        "guaranteed removable share of the loss",
        "gap to infinite width",
        "K2, atoms",
        "K3, bias",
    ):
        assert text in page
    # caveats before numbers, and a sign and a word beside every colour
    assert page.index("L1-equivalent stability") < page.index("In short")
    for sign, word in (("✗", "unstable"), ("✓", "stable"), ("?", "not known")):
        assert re.search(rf">\{sign}</span> {word}<", page)
    dead = int((table.features.density == 0).sum())
    assert f"{dead}: it is never active on these rows" in page  # why features are unknown, by reason
    noise = table.count("unknown") - dead
    assert f"{noise}: the violation is within the noise of the means" in page
    assert "The verdicts hold for exactly the rows measured. Rows: 20,000." in page
    assert "Verdicts hold for these codes, and this is how far they are from optimal" in page
    assert "larger is worse: above 1 + the longest residual" in page


def test_every_number_arrives(tmp_path: Path):
    table = made()
    data = index_of(write_certificates(table, tmp_path / "page").parent)
    assert data["count"] == 600
    np.testing.assert_array_equal(unpack(data["verdict"], "<i1"), table.features.verdict)
    for name, text in data["numbers"].items():
        np.testing.assert_allclose(unpack(text, "<f4"), getattr(table.features, name), rtol=1e-6)
    np.testing.assert_array_equal(unpack(data["strainPartner"], "<i4"), table.features.strain_partner)
    first = unpack(data["partners"], "<i4").reshape(-1, data["first"])
    counts = unpack(data["partnerCount"], "<i4")
    for j in range(600):
        assert counts[j] == len(table.features.partners_of(j))
        assert first[j][first[j] >= 0].tolist() == table.features.partners_of(j)[:3]
    strain = unpack(data["pairs"]["strain"], "<f4")
    assert (np.diff(strain[np.isfinite(strain)]) <= 0).all()
    assert np.isinf(strain).any()


def test_sentences_and_both_directions_of_partners_are_in_shards(tmp_path: Path):
    table = made()
    folder = write_certificates(table, tmp_path / "page").parent / "data"
    shards = [read_script(folder / f"why-{i}.js", "reasons") for i in range(3)]
    assert not (folder / "why-3.js").exists()
    rows = [row for part in shards for row in part]  # pyright: ignore[reportGeneralTypeIssues]
    assert [row[0] for row in rows] == list(table.features.why)
    for j, (_, partners, named_by, times) in enumerate(rows):
        assert partners == table.features.partners_of(j)
        assert named_by == [i for i in range(600) if j in table.features.partners_of(i)]
        assert times == len(named_by)


def test_tiny_and_huge_numbers_keep_their_side(tmp_path: Path):
    table = made(16)
    loss = np.array([1e-300, 1e300, 0.0, *np.ones(13)])
    table = replace(table, features=replace(table.features, removable_loss=loss))
    sent = unpack(index_of(write_certificates(table, tmp_path / "page").parent)["numbers"]["removable_loss"], "<f4")
    assert 0 < sent[0] < 1e-30 < 1e30 < sent[1] < np.inf
    assert sent[2] == 0


def test_a_signed_dictionary_names_halves(tmp_path: Path):
    found = made_certification(8)
    halves = tuple(replace(f, block=f.feature // 2, side=1 - 2 * (f.feature % 2)) for f in found.features)
    assert index_of(write_certificates(made(8), tmp_path / "one").parent)["side"] is None
    table = certificates_record(replace(found, features=halves), made_atoms(4))
    data = index_of(write_certificates(table, tmp_path / "two").parent)
    assert unpack(data["side"], "<i1").tolist() == [1, -1] * 4
    assert unpack(data["block"], "<i4").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("about", ["rows", "population"])
def test_stable_is_called_a_proof_only_of_these_rows(tmp_path: Path, about: Any):
    table = made(16)
    table = replace(table, settings=replace(table.settings, about=about))
    page = write_certificates(table, tmp_path / "page").read_text(encoding="utf-8")
    assert ("proved: no such change" in page) == (about == "rows")
    assert ("beyond what a sample of this size can tell" in page) == (about == "population")


def test_empty_and_unknown(tmp_path: Path):
    found = replace(
        made_certification(8), features=(), numbers={"gap": unknown("gap", "‖x‖²", "not asked for")}, kkt={}, notes=()
    )
    page = write_certificates(certificates_record(found), tmp_path / "page").read_text(encoding="utf-8")
    Outline(page)
    assert "not asked for" in page
    assert "No pair to draw" in page
    assert "<aside" not in page


def test_nothing_in_a_table_becomes_markup(tmp_path: Path):
    table = made(16)
    bad = Outcome(EVIL, 1.0, EVIL, n=1, n_unit=EVIL, note=EVIL)
    table = replace(
        table,
        title=EVIL,
        features=replace(table.features, why=(EVIL.replace("\ud800", ""),) * 16),
        numbers=(bad, unknown(EVIL, EVIL, EVIL)),
        kkt=(bad,),
        facts={EVIL: EVIL},
        notes=(EVIL,),
    )
    folder = write_certificates(table, tmp_path / "page").parent
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix in (".html", ".js"):
            assert "<script>alert" not in file.read_text(encoding="utf-8")
    Outline((folder / "index.html").read_text(encoding="utf-8"))


def test_nothing_is_asked_of_the_network_and_every_file_is_there(tmp_path: Path):
    folder = write_certificates(made(16), tmp_path / "page").parent
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "")
    for link in Outline(text).links:
        assert re.fullmatch(r"data:,|[\w./]*(#[\w-]+)?", link), link
        if link.endswith((".js", ".css")):
            assert (folder / link).is_file()
    for asset in ("certificate.js", "pairs.js"):
        source = (folder / asset).read_text(encoding="utf-8")
        assert not re.search(r"https?:|fetch\(|innerHTML|eval\(|XMLHttp", source), asset


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path):
    (tmp_path / "certificate").mkdir()
    (tmp_path / "certificate" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match=r"^out must") as error:
        certificate_page(made(8), tmp_path)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["certificate", "mine.txt"]
    (tmp_path / "certificates.json").write_text("[]")
    with pytest.raises(UserError, match=r"^out must"):
        certificate_page(made(8), tmp_path)


def test_record_and_page_lie_together_and_no_other_record_is_replaced(tmp_path: Path):
    for title in ("First", "Second"):
        page = certificate_page(replace(made(300), title=title), tmp_path / "out")
        assert page == tmp_path / "out" / "certificate" / "index.html"
        assert CertificateTable.load(tmp_path / "out").title == title
        assert index_of(page.parent)["count"] == 300
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    more = replace(made(300), facts={**made(300).facts, OPTIONS: "lam 2"})
    for other in (made(8), replace(made(300), facts={}), more):
        with pytest.raises(UserError, match=r"^out must hold no") as error:
            certificate_page(other, tmp_path / "out")
        assert "\n" not in str(error.value)
        assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_damaged_record_is_made_again(tmp_path: Path):
    certificate_page(made(8), tmp_path)
    (tmp_path / "certificates.safetensors").write_bytes(b"damaged")
    certificate_page(made(300), tmp_path)
    assert len(CertificateTable.load(tmp_path).features) == 300


def test_options_decide_what_is_the_same(tmp_path: Path):
    one = replace(made(8), facts={OPTIONS: "lam 1"})
    certificate_page(one, tmp_path)
    certificate_page(replace(made(16), facts={OPTIONS: "lam 1"}), tmp_path)  # the same, made again
    check_out(tmp_path, "lam 1")
    with pytest.raises(UserError, match=r"out must hold no certificates of other options; .*made with: lam 1"):
        check_out(tmp_path, "lam 2")


def test_fingerprints_tell_contents_apart():
    import torch

    layer = torch.nn.Linear(2, 2)
    one = fingerprint(layer, np.ones(2), {"a": 1})
    assert re.fullmatch(r"[0-9a-f]{12}", one)
    assert one == fingerprint(layer, np.ones(2), {"a": 1})
    assert len({one, fingerprint(layer, np.ones(2), {"a": 2}), fingerprint(layer, np.zeros(2), {"a": 1})}) == 3
    with torch.no_grad():
        layer.weight.add_(1)
    assert fingerprint(layer, np.ones(2), {"a": 1}) != one


def test_blocks_are_told_never_to_be_stable(tmp_path: Path):
    found = made_certification(8)
    blocks = tuple(replace(f, side=0, verdict="unknown") for f in found.features)
    page = write_certificates(certificates_record(replace(found, features=blocks)), tmp_path / "page").read_text(
        "utf-8"
    )
    assert "blocks are never called stable" in page
    assert "blocks are never called stable" not in write_certificates(made(8), tmp_path / "two").read_text("utf-8")


def test_every_condition_has_a_name_in_words(tmp_path: Path):
    x = np.random.default_rng(0).standard_normal((40, 4))
    found = ms.certify(x, np.eye(4), "resolved", lam=0.3)
    page = write_certificates(certificates_record(found), tmp_path / "page").read_text(encoding="utf-8")
    assert set(re.findall(r"<dt>([^<]+)</dt>", page)).isdisjoint(
        {o.name.replace("_", " ") for o in found.kkt.values()} - {"longest residual"}
    )
    assert "one atom a row" in page
    assert "K2, the worst atom" in page


def test_the_columns_of_a_large_dictionary_are_small(tmp_path: Path):
    few = write_certificates(made(256), tmp_path / "few").parent / "data" / "certificates.js"
    many = write_certificates(made(1024), tmp_path / "many").parent / "data" / "certificates.js"
    per_feature = (many.stat().st_size - few.stat().st_size) / 768
    assert per_feature < 80  # bytes: 1.3 MB at 16,384 features
    json.loads(many.read_text(encoding="ascii").removeprefix("monoseme.certificates(").removesuffix(");\n"))
