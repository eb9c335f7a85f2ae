"""Write the fixtures of SAELens: run inside an environment of its own that has `sae-lens` 6, never by the tests.

    python tests/interop/write_saelens.py tests/interop/fixtures/saelens

Every folder is a checkpoint that SAELens' own code saved, with random weights, and `expected.safetensors`: rows,
SAELens' activations and reconstruction, and the norms of its decoder rows (one where the activations have them in).
"""

# pyright: reportMissingImports=false
import json
import sys
import tempfile
from pathlib import Path

import sae_lens
import torch
from sae_lens.saes.abstopk_sae import AbsTopKSAE, AbsTopKSAEConfig
from sae_lens.saes.batchtopk_sae import BatchTopKTrainingSAE, BatchTopKTrainingSAEConfig
from sae_lens.saes.gated_sae import GatedSAE, GatedSAEConfig
from sae_lens.saes.jumprelu_sae import JumpReLUSAE, JumpReLUSAEConfig
from sae_lens.saes.matryoshka_batchtopk_sae import (
    MatryoshkaBatchTopKTrainingSAE,
    MatryoshkaBatchTopKTrainingSAEConfig,
)
from sae_lens.saes.sae import SAE, SAEMetadata
from sae_lens.saes.standard_sae import StandardSAE, StandardSAEConfig
from sae_lens.saes.topk_sae import TopKSAE, TopKSAEConfig, TopKTrainingSAE, TopKTrainingSAEConfig
from sae_lens.training.activation_scaler import ActivationScaler
from safetensors.torch import load_file, save_file

D_IN, D_SAE, K, N = 16, 48, 5, 12
SIZES = {"d_in": D_IN, "d_sae": D_SAE}


def randomise(sae: SAE, seed: int, zero: bool = True) -> SAE:
    """Random weights; decoder rows of unequal norms, one of them zero (by which SAELens divides where it rescales)."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(sae.named_parameters()):
            p.copy_(torch.randn(p.shape, generator=g) * 0.15)
            if name == "threshold":
                p.copy_(torch.rand(p.shape, generator=g) * 0.3)
                p[:3] = 0
            if name == "W_dec":
                p.mul_(0.5 + torch.rand(len(p), 1, generator=g))
                p[7] *= not zero
        if "topk_threshold" in dict(sae.named_buffers()):
            sae.topk_threshold.fill_(0.3)
    return sae


def expect(folder: Path, sae: SAE, rescaled: bool = False) -> None:
    x = torch.randn(N, sae.cfg.d_in, generator=torch.Generator().manual_seed(99))
    with torch.no_grad():
        acts = sae.encode(x)
        norms = torch.ones(sae.cfg.d_sae) if rescaled else sae.W_dec.norm(dim=-1)
        found = {"x": x, "acts": acts, "decoded": sae.decode(acts), "norms": norms}
    assert 0 < (acts != 0).float().mean() < 0.9
    save_file({name: t.contiguous() for name, t in found.items()}, folder / "expected.safetensors")


def inference(out: Path, name: str, sae: SAE) -> None:
    folder = out / name
    sae.save_model(folder)
    expect(folder, SAE.load_from_disk(folder))


def training(out: Path, name: str, sae: SAE, rescaled: bool) -> None:
    """A training checkpoint, and what the inference SAE that SAELens makes of it computes."""
    sae.save_model(out / name)
    with tempfile.TemporaryDirectory() as folder:
        sae.save_inference_model(folder)
        found = SAE.load_from_disk(folder)
    # where it rescales, the training SAE's activations are those of the saved one, whose rows have norm one
    expect(out / name, found, rescaled)


def exported(out: Path, name: str, sae: SAE) -> None:
    """What SAELens saves of a training SAE for inference."""
    sae.save_inference_model(out / name)
    expect(out / name, SAE.load_from_disk(out / name))


def scaled(out: Path) -> None:
    """An intermediate checkpoint; expected is the SAE with the factor folded into its weights, as at the end."""
    sae = randomise(
        StandardSAE(StandardSAEConfig(**SIZES, normalize_activations="expected_average_only_in")), 7, zero=False
    )
    folder = out / "standard-scaled"
    sae.save_model(folder)
    ActivationScaler(scaling_factor=0.37).save(str(folder / "activation_scaler.json"))
    sae.fold_activation_norm_scaling_factor(0.37)
    expect(folder, sae)


def flat(out: Path) -> None:
    """Configurations as before version 6, which SAELens still reads; its own loader computes what is expected."""
    old = {
        **SIZES,
        "dtype": "torch.float32",
        "device": "cpu",
        "model_name": "gpt2",
        "hook_point": "blocks.0.hook_mlp_out",
    }
    for name, sae, more in (
        (
            "flat",
            StandardSAE(StandardSAEConfig(**SIZES)),
            {"normalize_activations": False, "activation_fn_str": "relu"},
        ),
        (
            "flat-topk",
            TopKSAE(TopKSAEConfig(**SIZES, k=K)),
            {"activation_fn": "topk", "activation_fn_kwargs": {"k": K}},
        ),
    ):
        folder = out / name
        randomise(sae, 8).save_model(folder)
        (folder / "cfg.json").write_text(json.dumps({**old, **more}, indent=1) + "\n")
        weights = load_file(folder / "sae_weights.safetensors")
        if name == "flat":  # most files of a certain time carry it
            save_file({**weights, "scaling_factor": torch.ones(D_SAE)}, folder / "sae_weights.safetensors")
        expect(folder, SAE.load_from_disk(folder))


def main(out: Path) -> None:
    about = SAEMetadata(model_name="gpt2", hook_name="blocks.0.hook_resid_pre")
    inference(out, "standard", randomise(StandardSAE(StandardSAEConfig(**SIZES, metadata=about)), 0))
    unbiased = StandardSAEConfig(**SIZES, apply_b_dec_to_input=False)
    inference(out, "standard-b-dec-not-applied", randomise(StandardSAE(unbiased), 1))
    inference(out, "topk", randomise(TopKSAE(TopKSAEConfig(**SIZES, k=K)), 2))
    inference(out, "abstopk", randomise(AbsTopKSAE(AbsTopKSAEConfig(**SIZES, k=K)), 3))
    inference(out, "jumprelu", randomise(JumpReLUSAE(JumpReLUSAEConfig(**SIZES)), 4))
    inference(out, "gated", randomise(GatedSAE(GatedSAEConfig(**SIZES)), 5))
    options = {**SIZES, "k": K, "rescale_acts_by_decoder_norm": True}
    topk = randomise(TopKTrainingSAE(TopKTrainingSAEConfig(**options)), 6, zero=False)
    training(out, "topk-rescaled", topk, True)
    batch = randomise(BatchTopKTrainingSAE(BatchTopKTrainingSAEConfig(**options)), 6)
    training(out, "batchtopk-rescaled", batch, True)
    exported(out, "batchtopk-inference", batch)
    options["rescale_acts_by_decoder_norm"] = False
    training(out, "batchtopk", randomise(BatchTopKTrainingSAE(BatchTopKTrainingSAEConfig(**options)), 6), False)
    nested = MatryoshkaBatchTopKTrainingSAEConfig(**options, matryoshka_widths=[8, 24, D_SAE])
    matryoshka = randomise(MatryoshkaBatchTopKTrainingSAE(nested), 6)
    training(out, "matryoshka", matryoshka, False)
    exported(out, "matryoshka-inference", matryoshka)
    scaled(out)
    flat(out)
    line = f"Written by `write_saelens.py` with sae-lens {sae_lens.__version__}: random weights, nobody's SAE.\n"
    (out / "README.md").write_text(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
