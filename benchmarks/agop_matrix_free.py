"""Energies of an AGOP of 65,536 coordinates, which would take 32 GiB: 256 tokens times 256 symbols, in a fresh process.

    python -m benchmarks.agop_matrix_free [INPUTS] [PROBES]

A small GPT with first weights; last logits against the distribution over symbols at every position (one-hot).
"""

from __future__ import annotations

import resource
import sys
import time

import torch

from monoseme.core.seeds import generator
from monoseme.interaction import How, agop
from monoseme.models.families import GPT, GPTShape


def main() -> None:
    """Compute, and print the energies with their intervals, time, and peak memory."""
    many, probes = (int(a) for a in (*sys.argv[1:], *("128", "8")[len(sys.argv) - 1 :]))
    model = GPT(GPTShape(4, 128))
    tokens = torch.randint(0, 256, (many, 256), generator=generator(0, "tokens"))
    start = time.perf_counter()
    found = agop(model, tokens, "token", of="last", probes=probes, how=How(view="flat"))
    energies = [found.energy(name, population=True) for name in ("aofe", "aofe_ratio", "participation_ratio", "excess")]
    took, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for one in energies:
        print(f"{one.name:>20} {one}")
    print(f"{found.about.width:,} coordinates, {many} inputs, {probes} probes each: {took:.1f} s, "
          f"peak {peak:.2f} GiB of this process")  # fmt: skip


if __name__ == "__main__":
    main()
