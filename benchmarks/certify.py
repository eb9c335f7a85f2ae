"""Certificates at four sizes: time, memory, and the share that is decided. Rows are made on the fly.

    python -m benchmarks.certify [SIZES]

The last size, a million rows and 16,384 features, is the one with a bound: at most 4 GiB.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch

from monoseme.core.code import Code
from monoseme.core.rows import Batch
from monoseme.optimality import CertifySettings
from monoseme.optimality.hull import HullSettings

SIZES = ((20_000, 512), (62_500, 2_048), (250_000, 8_192), (1_000_000, 16_384))
WIDTH, L0, PAIRS, SECONDS = 256, 22, 10, 60.0


class Planted:
    """Independent features and ten strict pairs, of which a seed and a number make the same batch every time."""

    def __init__(self, n: int, k: int, seed: int) -> None:
        self.n, self.k, self.seed = n, k, seed
        g = torch.Generator().manual_seed(k)
        self.atoms = torch.nn.functional.normalize(torch.randn(k, WIDTH, generator=g), dim=1).unsqueeze(1)
        self.bias, self.d_in = torch.zeros(WIDTH), WIDTH

    def __len__(self) -> int:
        return self.n

    def codes(self, start: int, stop: int) -> Code:
        r = np.random.default_rng([self.seed, start])
        index = np.sort(r.integers(0, self.k, (stop - start, L0)), 1)
        child = (index < 2 * PAIRS) & (index % 2 == 1)
        index = np.sort(np.concatenate([index, np.where(child, index - 1, self.k)], 1), 1)
        keep = (index < self.k) & np.concatenate([np.ones((len(index), 1), bool), index[:, 1:] != index[:, :-1]], 1)
        values = torch.from_numpy((0.5 + r.exponential(1.0, int(keep.sum()))).astype(np.float32)).unsqueeze(1)
        indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(keep.sum(1))]))
        return Code(indptr, torch.from_numpy(index[keep].astype(np.int32)), values, self.k)

    def in_order(self, size: int) -> Iterator[Batch]:
        for start in range(0, self.n, 1000):  # whatever is asked for: a batch depends on where it starts
            stop = min(start + 1000, self.n)
            code = self.codes(start, stop)
            x = torch.zeros(stop - start, WIDTH)
            x.index_add_(0, code.rows, code.values * self.atoms[code.indices.long(), 0])
            yield Batch(x, torch.arange(start, stop), torch.zeros(stop - start, dtype=torch.int64))


def measure(n: int, k: int) -> None:
    """Certify one size and print a line."""
    from monoseme.optimality import reading
    from monoseme.optimality.certify import certify_latents

    world, held = Planted(n, k, 1), Planted(max(n // 10, 2000), k, 2)
    start = time.perf_counter()
    made = []
    for part in (world, held):
        code = Code.cat([part.codes(i, min(i + 1000, part.n)) for i in range(0, part.n, 1000)])
        made.append(reading.latents(part.atoms[:, 0].double().numpy(), part.bias.double().numpy(), code))
    drawn = time.perf_counter() - start
    settings = CertifySettings(
        about="population", slack=k <= 2048, splits=k <= 2048, wide=False, hull=HullSettings(seconds=SECONDS)
    )
    start = time.perf_counter()
    rows = lambda: (batch.x.double().numpy() for batch in world.in_order(1000))  # noqa: E731
    found = certify_latents(rows, made[0], 0.05, settings, made[1])
    took, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    planted = [f.feature for f in found.features if f.verdict == "unstable"] == list(range(0, 2 * PAIRS, 2))
    open_ = found.count("unknown") / k
    print(
        f"{n:>9,} rows x {k:>6,} features: {took:7.1f} s (codes {drawn:.1f} s), peak {peak:.2f} GiB, "
        f"decided {1 - open_:.1%}, unstable {found.count('unstable')}, the planted pairs and no others: {planted}",
        flush=True,
    )


def main() -> None:
    """Run the sizes that were asked for; each in this process, smallest first, so the peak is that of the largest."""
    print(f"{torch.get_num_threads()} threads")
    for n, k in SIZES[: int(sys.argv[1]) if len(sys.argv) > 1 else len(SIZES)]:
        measure(n, k)


if __name__ == "__main__":
    main()
