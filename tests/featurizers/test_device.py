"""Rows come from the CPU; a featurizer may lie elsewhere."""

import signal
from typing import Any

import pytest
import torch

from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.evaluation import evaluate, recover
from monoseme.featurizers import AuxK, BlockTopK, TopK, fit
from monoseme.learning import Interrupted, Progress
from monoseme.worlds import manifolds

X = torch.randn(300, 8, generator=generator(0))


def test_rows_are_taken_to_the_featurizer() -> None:
    units = TopK(8, 16, k=3).units.to("meta", torch.float16)
    entered = units.enter(X)
    assert (entered.device.type, entered.dtype) == ("meta", torch.float16)


def test_a_code_moves_as_a_whole() -> None:
    code = TopK(8, 16, k=3).encode(X.reshape(3, 100, 8))
    assert code.to("cpu") is code
    moved = code.to("meta")
    assert {part.device.type for part in (moved.indptr, moved.indices, moved.values)} == {"meta"}
    assert (moved.batch_shape, moved.n_blocks) == (code.batch_shape, code.n_blocks)


def test_half_precision_gives_scipy_single_precision() -> None:
    z = TopK(8, 16, k=3).to(torch.bfloat16).transform(X)
    assert (z.dtype, z.shape, z.nnz) == ("float32", (300, 16), 900)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("refine", [None, "ls", "omp"])
def test_everything_runs_beside_a_gpu(tmp_path, refine) -> None:
    sample = manifolds(d=16, n_factors=4, active=2).sample(600, seed=1)
    featurizer = BlockTopK(16, 24, 2, k=2).to("cuda")
    options: dict[str, Any] = {"steps": 40, "batch_size": 100, "lr": 1e-2, "aux": AuxK(dead_after=100), "out": tmp_path}

    def stop(progress: Progress) -> None:
        if progress.step == 20:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        fit(featurizer, ArrayRows(sample.x), log_every=20, progress=stop, **options)
    again = BlockTopK(16, 24, 2, k=2).to("cuda")  # goes on with blocks that are dead by now
    fit(again, ArrayRows(sample.x), log_every=20, **options)
    assert evaluate(again, sample.x, refine=refine)["fvu"].known
    assert recover(again, sample, refine)["recovery"].known
    code = again.encode(sample.x, refine)
    torch.testing.assert_close(again.decode(code.to("cpu")), again.decode(code))
    assert again.transform(sample.x).shape == (600, 48)
