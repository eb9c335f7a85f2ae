"""Calls that newcomers made: each is refused in one line that names the argument and the next step."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from monoseme.models import HookedModel, ModelFacts
from monoseme.store.inputs import activations

# Without the shape checker that stands before every function in the tests: users have none.
MISTAKES = {
    "ms.fit('TopK', x)": "featurizer must be a Featurizer, or several by name; got str. Build one: monoseme.featuri",
    "ms.fit({'a': 'TopK'}, x)": "featurizer must be a Featurizer, or several by name; got str.",
    "ms.fit(ms.featurizers.TopK, x)": "featurizer must be a Featurizer, or several by name; got function.",
    "ms.fit({}, x)": "featurizers must hold at least one; got none.",
    "ms.featurizers.TopK(16, 4, 2)": "arguments must fit TopK(d_in: int, n_blocks: int, *, k: int, sign: ",
    "ms.featurizers.TopK(16, 4)": "got missing a required argument: 'k'.",
    "ms.featurizers.TopK(16, 4, k=2, sgn='free')": "got an unexpected keyword argument 'sgn'.",
    "ms.featurizers.build('TopK', {'d_in': 16})": "got missing a required argument: 'n_blocks'.",
    "ms.harvest(net, torch.zeros(9, 7), at='0', out='s')": "data must be what net takes; got (B, 7), on which it fails",
    "ms.sweep([TOPK], store, 'sweep', steps='20')": "steps must be at least 1; got '20'.",
    "ms.sweep([TOPK | {'k': [2, 9]}], store, 'sweep')": "k must be at most n_blocks = 8; got 9.",
    "ms.sweep([TOPK], store, 'sweep', lr=['fast'])": "lr must be positive and finite; got fast.",
    "ms.optimality.wide_limit(x, '0.1')": "lam must be positive and finite; got '0.1'.",
    "ms.optimality.wide_limit(x, 0.1, tol='1e-9')": "tol must be a number of at least 0; got '1e-9'.",
    "ms.optimality.wide_limit(x, 0.1, most=1.5)": "most must be a whole number, at least 1; got 1.5.",
    "ms.optimality.wide_limit(x, 0.1, most='9')": "most must be a whole number, at least 1; got '9'.",
    "ms.optimality.wide_limit(x, 0.1, ray_cosine=None)": "ray_cosine must be a number of at least 0 and at most 1; got",
    "ms.optimality.cover(x, None, 0.1, '1')": "excess must be a number of at least 0; got '1'.",
    "ms.optimality.solve(x, 4, 0.1, tol='0')": "tol must be a number of at least 0; got '0'.",
    "ms.page(ms.certify(x, torch.eye(16), 'resolved', lam=0.1))": "out must be given with a certification; got",
}


def test_mistakes_without_the_shape_checker(tmp_path):
    script = f"""
import torch
import monoseme as ms
from torch import nn
from monoseme.models import HookedModel, ModelFacts
x = torch.randn(64, 16)
net = HookedModel(nn.Sequential(nn.Linear(6, 4)), ModelFacts("net"))
store = ms.harvest(net, [torch.randn(6) for _ in range(40)], at="0", out="store")
TOPK = {{"name": "TopK", "n_blocks": 8, "k": 2}}
for mistake in {list(MISTAKES)!r}:
    try:
        eval(mistake)
        print("accepted")
    except ms.UserError as error:
        print(error)
    except Exception as error:
        print(repr(error))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == len(MISTAKES)
    for line, said in zip(lines, MISTAKES.values(), strict=True):
        assert said in line
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("not enough memory")])
def test_a_full_memory_is_not_the_data_s_fault(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    model = HookedModel(nn.Sequential(nn.Linear(6, 4)), ModelFacts("net"))
    monkeypatch.setattr(model, "run", full)
    with pytest.raises(RuntimeError) as caught:
        activations(model, torch.zeros(1, 6), "0")
    assert caught.value is error
