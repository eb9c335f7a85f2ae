"""What every featurizer promises: one list of cases, one list of contracts."""

import pytest
import torch
from tests.featurizers.cases import CASES, D
from torch.testing import assert_close

from monoseme.core.code import Code
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import fit, load
from monoseme.featurizers.dictionaries import Frames
from monoseme.featurizers.objective import AuxK, Objective
from monoseme.featurizers.thresholds import Jump
from monoseme.learning import without_clock

each = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def rows(n: int = 600, scale: float = 1.0) -> torch.Tensor:
    stream = generator(0, "rows")
    parts = torch.randn(n, 5, generator=stream) @ torch.randn(5, D, generator=stream)
    return scale * (parts + 0.1 * torch.randn(n, D, generator=stream) + 3)


def fitted(case, scale: float = 1.0, steps: int = 30, **options):
    featurizer = case.make(seed=1)
    fit(featurizer, ArrayRows(rows(scale=scale)), steps=steps, batch_size=100, lr=3e-3, **(case.options | options))
    return featurizer


@pytest.fixture(scope="module")
def trained():
    return {case.name: fitted(case) for case in CASES}


@each
@pytest.mark.parametrize("refine", [None, "ls", "omp"])
def test_decode_is_code_times_atoms_plus_bias(case, refine, trained):
    f = trained[case.name]
    code = f.encode(rows(50), refine)
    dense = code.to_dense()
    assert_close(f.decode(code), torch.einsum("ngb,gbd->nd", dense, f.atoms) + f.bias, rtol=1e-4, atol=1e-4)
    assert bool((code.presence > 0).all())
    if f.sign == "nonneg":
        assert float(code.values.min()) >= 0


@each
def test_batch_axes_equal_flattened(case, trained):
    f, x = trained[case.name], rows(60)
    code = f.encode(x.reshape(4, 15, D))
    assert_close(code.to_dense().reshape(60, f.n_blocks, -1), f.encode(x).to_dense(), rtol=0, atol=0)
    assert f.decode(code).shape == (4, 15, D)
    assert_close(f.decode(code).reshape(60, D), f.decode(f.encode(x)), rtol=0, atol=0)


@each
def test_calling_it_reconstructs_in_raw_units_with_gradients(case, trained):
    f, x = trained[case.name], rows(60).reshape(4, 15, D).requires_grad_()
    assert_close(f(x), f.decode(f.encode(x.detach())), rtol=1e-4, atol=1e-4)
    (grad,) = torch.autograd.grad(f(x).square().sum(), x)
    assert float(grad.abs().max()) > 0


@each
def test_batch_split_does_not_matter(case, trained, monkeypatch):
    f, x = trained[case.name], rows(60)
    whole = f.encode(x)
    monkeypatch.setattr("monoseme.featurizers.featurizer.ENCODE_FLOATS", 7 * f.n_blocks * f.block_size)
    assert_close(f.encode(x).to_dense(), whole.to_dense(), rtol=1e-5, atol=1e-5)


@each
def test_fast_path_equals_dense_autograd_in_float64(case, trained):
    f = case.make(seed=1).double()
    f.load_state_dict(trained[case.name].double().state_dict())
    trained[case.name].float()
    x = f.units.enter(rows(40).double()).requires_grad_()
    leaves = [x, *(p for p in f.parameters() if p.requires_grad)]
    results = []
    for dense in (False, True):
        out = f.reconstruct(x, dense=dense)
        grads = torch.autograd.grad((out - x.detach()).square().sum(), leaves)
        results.append((out, *grads))
    for fast, slow in zip(*results, strict=True):
        assert_close(fast, slow, rtol=1e-9, atol=1e-9)


@each
def test_scale_of_the_data_is_carried_by_the_codes(case):
    small, large = fitted(case, 1.0), fitted(case, 1000.0)
    a, b = small.encode(rows(80)), large.encode(rows(80, 1000.0))
    assert_close(b.indices, a.indices)
    assert_close(b.values, a.values * 1000, rtol=2e-2, atol=2.0)


@each
def test_save_and_load_bit_for_bit(case, trained, tmp_path):
    f = trained[case.name].eval()
    g = load(f.save(tmp_path / "f"))
    assert g.recipe == f.recipe
    for refine in (None, "ls", "omp"):
        a, b = f.encode(rows(40), refine), g.encode(rows(40), refine)
        assert_close(a.values, b.values, rtol=0, atol=0)
        assert_close(a.indices, b.indices, rtol=0, atol=0)
    assert_close(f.decode(a), g.decode(b), rtol=0, atol=0)


@each
def test_resume_bit_for_bit(case, tmp_path):
    """The same run in two sittings. (A run killed at a random moment is in tests/featurizers/test_killed.py.)"""
    straight, resumed = case.make(seed=1), case.make(seed=1)
    data, base = ArrayRows(rows()), {"batch_size": 100, "lr": 3e-3, "log_every": 1, "checkpoint_every": 7}
    options = case.options | base | {"steps": 40}
    one = fit(straight, data, out=tmp_path / "one", **options)

    def stop(progress):
        if progress.step == 25:
            raise ConnectionError("the plug is pulled")

    with pytest.raises(ConnectionError):
        fit(case.make(seed=1), data, out=tmp_path / "two", progress=stop, **options)
    two = fit(resumed, data, out=tmp_path / "two", **options)
    for name, value in straight.state_dict().items():
        assert_close(resumed.state_dict()[name], value, rtol=0, atol=0)
    assert without_clock(one.history.lines) == without_clock(two.history.lines)


@each
def test_seed_decides_and_the_global_generator_does_not(case):
    torch.manual_seed(1)
    one = fitted(case)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    two = fitted(case)
    assert_close(torch.get_rng_state(), before)
    assert_close(one.dictionary.weight, two.dictionary.weight, rtol=0, atol=0)
    assert not torch.equal(fitted(case, seed=5).dictionary.weight, one.dictionary.weight)


def rebuilt(case, f, change):
    """The same featurizer with every weight and threshold changed by `change`: state → state."""
    g = case.make(seed=1)
    g.load_state_dict(change(f.state_dict()))
    g.gate.refresh(g.atoms)
    return g


@each
def test_permuting_blocks_permutes_codes(case, trained):
    f = trained[case.name]
    order = torch.randperm(f.n_blocks, generator=generator(4))
    b = f.block_size
    entries = (order.unsqueeze(1) * b + torch.arange(b)).reshape(-1)

    def permute(state):
        rows_of = {f.n_blocks * b: entries, f.n_blocks: order}
        moved = {name: t for name, t in state.items() if t.ndim and not name.startswith(("units", "out_bias"))}
        return {**state, **{name: t[rows_of[len(t)]] for name, t in moved.items() if len(t) in rows_of}}

    g = rebuilt(case, f, permute)
    assert_close(g.encode(rows(50)).to_dense(), f.encode(rows(50)).to_dense()[:, order], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", [case for case in CASES if case.turns], ids=lambda case: case.name)
def test_rotating_inside_blocks_changes_neither_presence_nor_reconstruction(case, trained):
    f = trained[case.name]
    q = torch.linalg.qr(torch.randn(f.n_blocks, f.block_size, f.block_size, generator=generator(6))).Q

    def turn(state):
        flat = {name: state[name] for name in ("dictionary.weight", "encoder.weight", "encoder.bias") if name in state}
        turned = {name: (q @ t.reshape(f.n_blocks, f.block_size, -1)).reshape(t.shape) for name, t in flat.items()}
        return {**state, **turned}

    g = rebuilt(case, f, turn)
    a, b = f.encode(rows(50)), g.encode(rows(50))
    assert_close(a.indices, b.indices)
    assert_close(a.presence, b.presence, rtol=1e-3, atol=1e-3)
    assert_close(f.decode(a), g.decode(b), rtol=1e-3, atol=1e-3)


@each
def test_gradcheck_of_the_fast_path(case, trained):
    """Finite differences, where the function is smooth: supports do not change under steps of 1e-6."""
    f = case.make(seed=1).double()
    f.load_state_dict(trained[case.name].double().state_dict())
    trained[case.name].float()
    x = f.units.enter(rows(4).double()).requires_grad_()
    smooth = {n: p for n, p in f.named_parameters() if not (isinstance(f.gate, Jump) and n.startswith("gate"))}
    names, leaves = zip(*((n, p.detach().clone().requires_grad_()) for n, p in smooth.items()), strict=True)

    def reconstruct(x, *weights):
        return torch.func.functional_call(
            _Reconstructs(f), {f"f.{n}": w for n, w in zip(names, weights, strict=True)}, x
        )

    assert torch.autograd.gradcheck(reconstruct, (x, *leaves), fast_mode=True)


class _Reconstructs(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f.reconstruct(x)


@each
def test_half_precision_products_train_the_same_parts(case):
    """With products in bfloat16 thresholds move about as far as in single precision; nothing is stored in half."""
    moved = []
    for half in (False, True):
        before, after = (fitted(case, steps=s, precision="bfloat16" if half else "float32") for s in (1, 30))
        start = dict(before.gate.named_parameters())
        moved.append({n: p.detach() - start[n].detach() for n, p in after.gate.named_parameters()})  # thresholds
        assert all(p.dtype == torch.float32 for p in after.parameters())
        assert float(after.encode(rows(40)).l0.float().mean()) > 0
    for full, half in zip(moved[0].values(), moved[1].values(), strict=True):
        assert float(full.norm()) > 0
        assert_close(float(half.norm()), float(full.norm()), rtol=0.1, atol=0)


@each
def test_half_precision_rows_are_encoded_in_the_featurizers_own(case, trained):
    f = trained[case.name]
    code = f.encode(rows(30).bfloat16())
    assert code.values.dtype == torch.float32
    assert_close(code.to_dense(), f.encode(rows(30).bfloat16().float()).to_dense(), rtol=0, atol=0)


@each
def test_least_squares_never_reconstructs_worse(case, trained):
    f, x = trained[case.name], rows(100)
    one_pass, ls = ((f.decode(f.encode(x, r)) - x).square().sum(1) for r in (None, "ls"))
    assert bool((ls <= one_pass * (1 + 1e-4) + 1e-4).all())


@each
def test_constraint_holds_after_training(case, trained):
    atoms = trained[case.name].atoms.double()
    if isinstance(trained[case.name].dictionary, Frames):
        assert_close(atoms @ atoms.mT, torch.eye(atoms.shape[1]).double().expand(len(atoms), -1, -1), atol=1e-6, rtol=0)
    elif trained[case.name].dictionary.constraint == "atoms":
        assert_close(atoms.norm(dim=2), torch.ones(atoms.shape[:2]).double(), atol=1e-6, rtol=0)
    else:
        assert float(atoms.flatten(1).norm(dim=1).max()) <= 1 + 1e-6


@each
def test_training_lowers_the_loss(case):
    result = fit(case.make(seed=1), ArrayRows(rows()), steps=200, batch_size=100, lr=3e-3, **case.options)
    losses = result.history.series("fvu")[1]
    assert losses[-1] < 0.8 * losses[0]


@each
def test_codes_of_no_rows_and_one_row(case, trained):
    f = trained[case.name]
    assert f.encode(rows(5)[:0]).n_rows == 0
    one = f.encode(rows(5)[0])
    assert one.batch_shape == ()
    assert f.decode(one).shape == (D,)
    assert isinstance(Code.cat([f.encode(rows(3)), f.encode(rows(4))]), Code)


@pytest.mark.parametrize("on", ["dead", "runners-up"])
@each
def test_auxk_gradient_equals_dense_autograd(case, on):
    """Dead blocks get the gradient that dense autograd gives, through the encoder too, with the residual detached."""
    f = case.make(seed=1).double()
    objective = Objective(f, 0.0, AuxK(on=on, k=4, weight=0.7, dead_after=10))
    objective.begin(ArrayRows(rows().double()))
    objective.idle[::2] = 10
    x = f.units.enter(rows(30).double())
    leaves = [p for p in f.parameters() if p.requires_grad]
    support, _, pre = f.codes(x)
    residual = (x - f.reconstruct(x)).detach()
    revived = objective._revive(x, residual, support, pre)
    got = torch.autograd.grad(revived, leaves, allow_unused=True) if revived.requires_grad else [None] * len(leaves)

    dense = f.encoder.pre(x, f.dictionary.atoms).reshape(len(x), f.n_blocks, -1)
    dense = dense.relu() if f.sign == "nonneg" else dense
    norms = dense.detach().norm(dim=-1)
    out = objective.idle < 10 if on == "dead" else support.to_mask()
    norms = norms.masked_fill(out, -1.0)
    k = min(4, int((objective.idle >= 10).sum())) if on == "dead" else 4
    top = torch.zeros_like(norms).scatter_(1, norms.topk(k, 1).indices, 1.0) * (norms > 0)
    extra = (dense * top.unsqueeze(-1)).reshape(len(x), -1) @ f.dictionary.weight
    loss = 0.7 * (residual - extra).square().sum(1).mean()
    want = torch.autograd.grad(loss, leaves, allow_unused=True)
    for mine, reference in zip(got, want, strict=True):
        # where nothing can be revived (ReLU's runners-up) there is no graph at all, and dense autograd's zeros
        dense_grad = torch.zeros(()) if reference is None else reference
        assert_close(torch.zeros_like(dense_grad) if mine is None else mine, dense_grad, rtol=1e-8, atol=1e-10)


def test_auxk_is_exactly_zero_when_nothing_is_dead():
    f = CASES[1].make(seed=1)
    objective = Objective(f, 0.0, AuxK(on="dead"))
    objective.begin(ArrayRows(rows()))
    x = f.units.enter(rows(30))
    support, _, pre = f.codes(x)
    loss = objective._revive(x, x, support, pre)
    assert float(loss) == 0
    assert not loss.requires_grad
