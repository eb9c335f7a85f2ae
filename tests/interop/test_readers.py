"""Checkpoints that SAELens and sparsify wrote themselves give the same codes and the same reconstructions here."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import monoseme as ms
from monoseme.core.protocols import Featurizes
from monoseme.featurizers import Featurizer

FIXTURES = Path(__file__).parent / "fixtures"
CASES = sorted(f"{path.parent.parent.name}:{path.parent.name}" for path in FIXTURES.glob("*/*/cfg.json"))
SPECIES = {
    "saelens:standard": "ReLU",
    "saelens:topk": "RankedTopK",
    "saelens:topk-rescaled": "TopK",
    "saelens:flat-topk": "RankedTopK",
    "saelens:gated": "JumpReLU",
    "saelens:batchtopk": "JumpReLU",
    "saelens:matryoshka-inference": "JumpReLU",
    "sparsify:num-latents": "TopK",
    "sparsify:any-norm": "RankedTopK",
}


def folder(case: str) -> Path:
    library, name = case.split(":")
    return FIXTURES / library / name


def opened(case: str) -> Featurizer:
    return ms.load(f"{case.split(':')[0]}:{folder(case)}")


def test_every_kind_of_checkpoint_has_a_fixture():
    assert len(CASES) == 19
    assert set(SPECIES) < set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_codes_are_their_activations_times_the_norm_and_the_reconstruction_is_theirs(case):
    expected, f = load_file(folder(case) / "expected.safetensors"), opened(case)
    norms = torch.where(expected["norms"] > 0, expected["norms"], torch.ones(()))
    code = f.encode(expected["x"])
    assert_close(code.to_dense().squeeze(-1), expected["acts"] * norms, rtol=1e-6, atol=1e-6)
    assert_close(f.decode(code), expected["decoded"], rtol=1e-6, atol=1e-6)
    # what fires is the same, entry by entry
    assert_close(code.to_dense().squeeze(-1) != 0, expected["acts"] != 0)


@pytest.mark.parametrize("case", CASES)
def test_the_result_is_a_featurizer_of_unit_atoms_that_can_be_saved(case, tmp_path):
    f = opened(case)
    assert isinstance(f, Featurizer)
    assert isinstance(f, Featurizes)
    norms = f.atoms.norm(dim=-1)
    assert_close(norms[norms > 0], torch.ones(int((norms > 0).sum())))
    x = load_file(folder(case) / "expected.safetensors")["x"]
    again = ms.load(f.save(tmp_path / "ours"))
    assert_close(again.encode(x).to_dense(), f.encode(x).to_dense(), rtol=0, atol=0)
    assert_close(again(x), f(x), rtol=0, atol=0)
    assert_close(f.decode(f.encode(x)), f(x))


@pytest.mark.parametrize(("case", "name"), SPECIES.items())
def test_species(case, name):
    assert opened(case).recipe["name"] == name


def test_it_evaluates_and_trains_on():
    f, x = opened("saelens:standard"), torch.randn(300, 16, generator=torch.Generator().manual_seed(0))
    assert ms.evaluate(f, x)["fvu"].known
    before = f.bias
    ms.fit(f, x, steps=3, batch_size=100, lam=0.1)
    assert_close(f.units.shift, before)  # a fitted scale is left alone
    assert ms.evaluate(f, x)["fvu"].known


@pytest.mark.parametrize("case", ["saelens:standard", "sparsify:any-norm"])
def test_certify_in_one_line(case):
    x = torch.randn(400, 16, generator=torch.Generator().manual_seed(1))
    found = ms.certify(ms.load(f"{case.split(':')[0]}:{folder(case)}"), x, lam=0.05)
    assert len(found.features) == 48
    assert all(f.verdict in ("stable", "unstable", "unknown") for f in found.features)


def test_a_prefix_in_a_path_object_as_the_command_line_makes_it():
    assert ms.load(Path(f"saelens:{folder(S)}")).recipe["name"] == "ReLU"


# -- what is refused, in one line


def damaged(tmp_path: Path, case: str, cfg: dict | None = None, weights: dict | None = None) -> str:
    """A copy of a fixture with other fields (None drops one) and other tensors."""
    path = tmp_path / "copy"
    shutil.copytree(folder(case), path)
    fields = json.loads((path / "cfg.json").read_text()) | (cfg or {})
    (path / "cfg.json").write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
    file = next(p for p in path.glob("*.safetensors") if p.name != "expected.safetensors")
    tensors = load_file(file) | (weights or {})
    save_file({k: v for k, v in tensors.items() if v is not None}, file)
    return f"{case.split(':')[0]}:{path}"


def refused(path: str, *words: str) -> None:
    with pytest.raises(ms.UserError) as caught:
        ms.load(path)
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert re.search(word, line), line


NAN = torch.full((48,), torch.nan)
S, T, J, B, P = "saelens:standard", "saelens:topk", "saelens:jumprelu", "saelens:batchtopk", "sparsify:num-latents"
BAD_CFG = [
    (S, {"d_in": "16"}, ["d_in", "int"]),
    (S, {"d_in": True}, ["d_in", "int"]),
    (S, {"d_in": 0}, ["d_in", "at least 1"]),
    (S, {"d_in": None}, ["d_in", "be there"]),
    (S, {"d_in": 10**12}, ["W_enc", "shape"]),
    (S, {"d_sae": 47}, ["W_enc", "shape"]),
    (S, {"architecture": "transcoder"}, ["architecture", "transcoder", "gated"]),
    (S, {"architecture": "matching_pursuit"}, ["architecture"]),
    (S, {"architecture": 3}, ["architecture", "str"]),
    (S, {"normalize_activations": "layer_norm"}, ["normalize_activations", "layer_norm"]),
    (S, {"normalize_activations": "constant_norm_rescale"}, ["normalize_activations"]),
    (S, {"normalize_activations": "covariance_whitening"}, ["normalize_activations", "Fold"]),
    (S, {"normalize_activations": "expected_average_only_in"}, ["activation_scaler.json", "mean norm"]),
    (S, {"reshape_activations": "hook_z"}, ["reshape_activations", "hook_z"]),
    (S, {"apply_b_dec_to_input": "yes"}, ["apply_b_dec_to_input", "bool"]),
    (S, {"activation_fn": "tanh-relu"}, ["activation_fn", "tanh-relu"]),
    ("saelens:flat", {"hook_point": "blocks.0.attn.hook_z"}, ["reshape_activations", "hook_z"]),
    ("saelens:flat", {"normalize_activations": True}, ["activation_scaler.json"]),
    ("saelens:flat-topk", {"activation_fn_kwargs": {}}, ["activation_fn_kwargs: k", "be there"]),
    (T, {"k": 49}, ["k", "at most"]),
    (T, {"k": 2.5}, ["k", "int"]),
    (P, {"activation": "groupmax"}, ["activation", "groupmax"]),
    (P, {"transcode": True}, ["transcode"]),
    (P, {"skip_connection": True}, ["skip_connection"]),
    (P, {"signed": True}, ["signed"]),
    (P, {"num_latents": 0}, ["encoder.weight", "shape"]),
    (P, {"num_latents": -1}, ["num_latents"]),
    (P, {"k": "5"}, ["k", "int"]),
    (P, {"d_in": None}, ["d_in", "be there"]),
]
BAD_WEIGHTS = [
    (S, {"b_enc": None}, ["b_enc", "be there"]),
    (S, {"b_enc": NAN}, ["b_enc", "finite"]),
    (S, {"b_enc": torch.zeros(48, dtype=torch.int64)}, ["b_enc", "floating"]),
    (S, {"W_skip": torch.zeros(16, 16)}, ["W_skip", "surplus"]),
    (S, {"scaling_factor": torch.full((48,), 2.0)}, ["scaling_factor", "ones"]),
    (J, {"threshold": torch.full((48,), -1.0)}, ["threshold", "negative"]),
    (J, {"threshold": torch.tensor(0.3)}, ["threshold", "shape"]),
    (B, {"topk_threshold": torch.tensor(-1.0, dtype=torch.float64)}, ["topk_threshold", "negative"]),
    (P, {"W_dec": torch.zeros(16, 48)}, ["W_dec", "shape"]),
    (P, {"W_dec": None}, ["W_dec", "be there"]),
]


@pytest.mark.parametrize(("case", "cfg", "words"), BAD_CFG)
def test_configurations_that_cannot_be_read_exactly(case, cfg, words, tmp_path):
    refused(damaged(tmp_path, case, cfg), *words)


@pytest.mark.parametrize(("case", "weights", "words"), BAD_WEIGHTS)
def test_tensors_that_do_not_fit(case, weights, words, tmp_path):
    refused(damaged(tmp_path, case, weights=weights), *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"scaling_factor": "2"}', ["scaling_factor"]),
        ('{"scaling_factor": -1}', ["scaling_factor", "positive"]),
        ('{"scaling_factor": NaN}', ["scaling_factor"]),
        ('{"scaling_factor": null, "has_whitening": true}', ["has_whitening"]),
        ('{"scaling_factor": null}', ["scaling_factor"]),
        ("[1]", ["activation_scaler.json", "dict"]),
        ("{", ["activation_scaler.json", "JSON"]),
    ],
)
def test_scales_that_are_none(text, words, tmp_path):
    path = damaged(tmp_path, "saelens:standard-scaled")
    (tmp_path / "copy" / "activation_scaler.json").write_text(text)
    refused(path, *words)


def test_a_scale_beside_weights_that_have_it_already(tmp_path):
    path = damaged(tmp_path, S)
    (tmp_path / "copy" / "activation_scaler.json").write_text('{"scaling_factor": 0.5}')
    refused(path, "scaling_factor", "null")


def test_log_thresholds_of_older_files(tmp_path):
    weights = load_file(folder(J) / "sae_weights.safetensors")
    theta = weights["threshold"].clamp_min(0.1)
    new = damaged(tmp_path / "a", J, weights={"threshold": theta})
    old = damaged(tmp_path / "b", J, weights={"threshold": None, "log_threshold": theta.log()})
    x = load_file(folder(J) / "expected.safetensors")["x"]
    assert_close(ms.load(old).encode(x).to_dense(), ms.load(new).encode(x).to_dense())


def test_half_and_double_precision(tmp_path):
    weights, x = load_file(folder(S) / "sae_weights.safetensors"), load_file(folder(S) / "expected.safetensors")["x"]
    half = ms.load(damaged(tmp_path / "a", S, weights={k: v.bfloat16() for k, v in weights.items()}))
    assert half.atoms.dtype == torch.float32
    assert_close(half(x), opened(S)(x), rtol=0, atol=0.2)
    double = ms.load(damaged(tmp_path / "b", S, weights={k: v.double() for k, v in weights.items()}))
    assert double.atoms.dtype == torch.float64
    by_hand = ((x.double() - weights["b_dec"]) @ weights["W_enc"].double() + weights["b_enc"]).relu()
    assert_close(double(x), by_hand @ weights["W_dec"].double() + weights["b_dec"], rtol=1e-12, atol=1e-12)


def test_a_checkpoint_without_prefix_is_told_its_prefix(tmp_path):
    for case in (S, P):
        refused(str(folder(case)), "path", f"{case.split(':')[0]}:{re.escape(str(folder(case)))}")
    with pytest.raises(ms.UserError, match="saelens:"):
        ms.load(folder(S))


def test_paths_that_lead_to_no_checkpoint(tmp_path):
    refused(f"saelens:{tmp_path / 'nowhere'}", "path", "no such folder")
    refused(f"sealens:{folder(S)}", "path", "saelens")
    refused(f"saelens:{folder(P)}", "path", "sae_weights.safetensors")
    refused(f"sparsify:{FIXTURES / 'sparsify'}", "path", "any-norm")  # the folder of a run: name a hookpoint
    pickle = tmp_path / "sae.pt"
    pickle.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    refused(f"saelens:{pickle}", "path", "ickle")
    (tmp_path / "cfg.json").write_text("{}")
    refused(f"saelens:{tmp_path}", "path", "sae.pt")


def test_files_that_are_not_what_they_are_called(tmp_path):
    path = damaged(tmp_path / "a", S)
    (tmp_path / "a" / "copy" / "sae_weights.safetensors").write_bytes(b"not a tensor")
    refused(path, "path", "safetensors")
    path = damaged(tmp_path / "b", S)
    (tmp_path / "b" / "copy" / "cfg.json").write_text("[]")
    refused(path, "cfg.json", "dict")
