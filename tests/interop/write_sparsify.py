"""Write the fixtures of sparsify: run inside an environment of its own that has `eai-sparsify`, never by the tests.

    python tests/interop/write_sparsify.py tests/interop/fixtures/sparsify

As in `write_saelens.py`: sparsify's own code saves every checkpoint and computes what is expected.
"""

# pyright: reportMissingImports=false
import sys
from pathlib import Path

import sparsify
import torch
from safetensors.torch import save_file

D_IN, LATENTS, K, N = 16, 48, 5, 12


def write(folder: Path, seed: int, bias: float = 0.1, **options: object) -> None:
    sae = sparsify.SparseCoder(D_IN, sparsify.SparseCoderConfig(k=K, **options))
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in sorted(sae.named_parameters()):
            p.copy_(torch.randn(p.shape, generator=g) * 0.15)
        sae.encoder.bias.add_(bias)
        sae.W_dec.mul_(0.5 + torch.rand(len(sae.W_dec), 1, generator=g))
        if sae.cfg.normalize_decoder:
            sae.set_decoder_norm_to_unit_norm()
        sae.save_to_disk(folder)
        x = torch.randn(N, D_IN, generator=torch.Generator().manual_seed(99))
        values, indices, _ = sae.encode(x)
        acts = torch.zeros(N, sae.num_latents).scatter_(1, indices, values)
        found = {"x": x, "acts": acts, "decoded": sae.decode(values, indices), "norms": sae.W_dec.norm(dim=1)}
    save_file({name: t.contiguous() for name, t in found.items()}, folder / "expected.safetensors")


def main(out: Path) -> None:
    write(out / "num-latents", 0, num_latents=LATENTS)
    write(out / "expansion-factor", 1, expansion_factor=3)  # num_latents 0, as sparsify saves by default
    write(out / "any-norm", 2, num_latents=LATENTS, normalize_decoder=False)
    write(out / "few-positive", 3, bias=-0.9, num_latents=LATENTS, multi_topk=True)
    line = f"Written by `write_sparsify.py` with eai-sparsify {sparsify.__version__}: random weights, nobody's SAE.\n"
    (out / "README.md").write_text(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
