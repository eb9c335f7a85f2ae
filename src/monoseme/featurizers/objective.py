"""What is minimised: E‖x − x̂‖² + 2λ E Σ_g ‖z_g‖ + α · AuxK, in training units; and the count of who is dead.

House convention: the weight of the penalty is 2λ, so that an SAE's usual l1 coefficient is 2·`lam`. In raw units the
same problem has λ_raw = scale · lam.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.cones import block_norms, project
from monoseme.core.errors import refuse
from monoseme.core.kernels import fast
from monoseme.core.rows import RowSource
from monoseme.core.support import Support
from monoseme.featurizers.control import make_control
from monoseme.featurizers.featurizer import Featurizer, closed_form_gain
from monoseme.featurizers.gates import safe_norms

__all__ = ["AuxK", "Objective", "Precision"]

Precision = Literal["float32", "bfloat16"]

FIRST_ROWS = 4096  # rows from which the encoder's first gain is computed
LAST_ROWS, LAST_FLOATS = 16_384, 1 << 27  # rows on which a gate is calibrated, and their pre-codes, at most


@dataclass(frozen=True)
class AuxK:
    """The auxiliary loss that revives blocks: α · E‖r − z'D‖², with r the detached residual of the main path.

    Attributes
    ----------
    on
        ``"dead"``: z' are the `k` largest among the dead blocks (Gao et al. 2024), the default, because only they need
        it (others measured 75 % → 100 % live); ``"runners-up"``: the next `k` after the selected ones (App. D).
    k
        How many; ``None``: d/2 active dimensions for "dead", the batch's mean L0 (k or less) for "runners-up".
    weight
        α; ``None``: 1/32 for "dead", 1/k for "runners-up".
    dead_after
        A block is dead when it fired on none of the last so many training rows.

    What has norm zero cannot be revived: of `ReLU`, whose active latents are all that is positive, nothing is.
    """

    on: Literal["dead", "runners-up"] = "dead"
    k: int | None = None
    weight: float | None = None
    dead_after: int = 100_000

    def __post_init__(self) -> None:
        if self.on not in ("dead", "runners-up"):
            raise refuse("on", "be 'dead' or 'runners-up'", repr(self.on), "Use None for no auxiliary loss.")
        for name in ("k", "dead_after"):
            value = getattr(self, name)
            if value is None and name == "k":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise refuse(name, "be a whole number, at least 1", repr(value), "It counts blocks or rows.")
        if self.weight is not None and not (isinstance(self.weight, (int, float)) and 0 <= self.weight < math.inf):
            raise refuse("weight", "be at least 0", repr(self.weight), "It weighs the auxiliary loss.")


class Objective:
    """A featurizer and its loss, as the training loop wants them (`learning.Trainable`).

    Parameters
    ----------
    featurizer
        Trained in place.
    lam
        λ of the penalty; 0 for gates that fix L0 themselves, where a control steers it the first λ.
    aux
        `AuxK`, or ``None``.
    held_out
        Rows on which a gate is calibrated after the last step; the training rows when there are none.
    precision
        Of the dense products. Weights, thresholds and sums stay in single precision.
    """

    def __init__(
        self,
        featurizer: Featurizer,
        lam: float = 0.0,
        aux: AuxK | None = None,
        held_out: RowSource | None = None,
        precision: Precision = "float32",
    ) -> None:
        if not lam >= 0:
            raise refuse("lam", "be at least 0", lam, "It weighs the penalty 2·lam·‖z‖.")
        self.featurizer, self.lam, self.aux, self.held_out = featurizer, lam, aux, held_out
        if precision not in get_args(Precision):
            raise refuse("precision", "be 'float32' or 'bfloat16'", repr(precision), "The default is 'float32'.")
        self.precision = precision
        self.control = make_control(featurizer.gate.control, featurizer.gate.target)
        self.log_lam = math.log(lam) if lam > 0 else -math.inf
        # rows since each block last fired
        self.idle = torch.zeros(featurizer.n_blocks, dtype=torch.int64, device=featurizer.out_bias.device)

    # -- learning.Trainable

    def parameters(self) -> Iterable[nn.Parameter]:
        """Return the featurizer's trained parameters."""
        return (p for p in self.featurizer.parameters() if p.requires_grad)

    def state(self) -> dict[str, Tensor]:
        """Return weights, units and counters."""
        log_lam = torch.tensor(self.log_lam, dtype=torch.float64)
        return {**self.featurizer.state_dict(), "idle": self.idle, "log_lam": log_lam}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        rest = dict(state)
        self.idle = rest.pop("idle").to(self.idle.device, copy=True)
        self.log_lam = float(rest.pop("log_lam"))
        self.featurizer.load_state_dict(rest)

    def begin(self, rows: RowSource) -> None:
        """Fit the units to the rows and the encoder's gain to the first of them. A fitted featurizer is left alone."""
        if rows.d_in != self.featurizer.d_in:
            raise refuse(
                "data", f"have width d_in = {self.featurizer.d_in}", rows.d_in, "Build the featurizer with this width."
            )
        units = self.featurizer.units
        if bool(units.fitted):
            return
        units.fit(rows.moments)
        x = units.enter(rows.batch(0, min(FIRST_ROWS, len(rows)), 0).x)
        with torch.autocast(x.device.type, enabled=False):
            self._start_gate(x)
            gain = closed_form_gain(self.featurizer, x)
            self.featurizer.encoder.start(self.featurizer.dictionary.atoms, gain)
            self._start_gate(x)  # thresholds grow with the pre-codes

    def loss(self, x: Float[Tensor, "n d"], step: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Loss of raw rows, and the numbers to log."""
        half = self.precision == "bfloat16"
        # said here for every step: a cast weight that autocast remembers would outlive the step that changes it
        with torch.autocast(self.idle.device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            return self._loss(self.featurizer.units.enter(x))

    def _loss(self, x: Float[Tensor, "n d"]) -> tuple[Tensor, dict[str, float | Tensor]]:
        dense = self.featurizer.gate.mostly_on
        error, support, pre, price = self._dense(x) if dense else self._sparse(x)
        square, l0 = error.square().sum(1).mean(), len(support.indices) / len(x)
        loss = square
        if lam := self.control.weight(self.log_lam, l0):
            loss = loss + 2 * lam * price() / len(x)
        self.log_lam = self.control.next(self.log_lam, l0)
        if self.aux is not None:
            loss = loss + self._revive(x, error.detach(), support, pre)
        self._count(support)
        # about the batch's own mean: training units need not be centred on these rows (norm "none", another data set)
        total = (x - x.mean(0)).square().sum() / len(x)
        numbers: dict[str, float | Tensor] = {
            "loss": loss.detach(),
            "fvu": (square / total).detach(),
            "l0": l0,
            "dead": self.dead.float().mean(),
        }
        if self.control.kind != "fixed":
            numbers["lam"] = lam
        return loss, numbers

    def before_step(self, step: int) -> None:
        """Keep the atoms' gradient along their constraint."""
        self.featurizer.dictionary.keep_tangent()

    def after_step(self, step: int) -> None:
        """Return the atoms to their constraint."""
        self.featurizer.dictionary.constrain(step)
        self.featurizer.gate.refresh(self.featurizer.dictionary.atoms.detach(), step)

    def finish(self) -> None:
        """Make the constraint exact, and calibrate the gate."""
        self.featurizer.dictionary.settle()
        self.featurizer.gate.refresh(self.featurizer.dictionary.atoms.detach())
        if self.featurizer.gate.calibrates:
            self._calibrate()

    # -- the parts of the loss

    @property
    def dead(self) -> Tensor:
        """Blocks that did not fire on the last `dead_after` rows."""
        return self.idle >= (self.aux.dead_after if self.aux else AuxK.dead_after)

    def _sparse(self, x: Tensor) -> tuple[Tensor, Support, Tensor, Callable[[], Tensor]]:
        f = self.featurizer
        support, values, pre = f.codes(x, training=True)
        x_hat = f.put_together(values, support, pre)
        return x - x_hat, support, pre, lambda: f.gate.price(values, support, pre, f.sign)

    def _dense(self, x: Tensor) -> tuple[Tensor, Support, Tensor, Callable[[], Tensor]]:
        z = self.featurizer.codes_dense(x, training=True)
        x_hat = z.reshape(len(x), -1) @ self.featurizer.dictionary.weight + self.featurizer.out_bias
        support = Support.from_mask((z.detach() != 0).any(-1))
        return x - x_hat, support, z.detach().reshape(len(x), -1), lambda: safe_norms(z).sum()

    @torch.no_grad()
    def _norms(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n G"]:
        f = self.featurizer
        return block_norms(f.encoder.pre(x, f.dictionary.atoms).unflatten(1, (f.n_blocks, -1)), f.sign)

    def _start_gate(self, x: Float[Tensor, "n d"]) -> None:
        self.featurizer.gate.begin(self._norms(x))

    def _calibrate(self) -> None:
        """Show the gate the norms on held-out rows, drawn from all of them."""
        rows, f = self.held_out, self.featurizer
        assert rows is not None
        most = max(1, min(LAST_ROWS, LAST_FLOATS // (f.n_blocks * f.block_size)))
        x = rows.batch(0, min(most, len(rows)), 0).x
        self.featurizer.gate.calibrate(self._norms(self.featurizer.units.enter(x)))

    @torch.no_grad()
    def _count(self, support: Support) -> None:
        fired = support.counts() > 0
        self.idle = torch.where(fired, 0, self.idle + support.n_rows)

    def _revive(self, x: Tensor, residual: Tensor, support: Support, pre: Tensor) -> Tensor:
        """α · E‖r − z'D‖²; exactly zero, with no gradient, when there is nothing to revive."""
        assert self.aux is not None
        extra, weight = self._dead_support(pre) if self.aux.on == "dead" else self._next_support(pre, support)
        if extra is None or not len(extra.indices):
            return residual.new_zeros(())
        atoms = self.featurizer.dictionary.atoms
        values = project(self.featurizer.encoder.values_at(x, atoms, extra, pre), self.featurizer.sign)
        return weight * (residual - fast.decode(values, extra, atoms)).square().sum(1).mean()

    @torch.no_grad()
    def _dead_support(self, pre: Tensor) -> tuple[Support | None, float]:
        """Return the largest blocks among the dead ones, and α."""
        assert self.aux is not None
        featurizer, dead = self.featurizer, self.dead.nonzero().squeeze(1)
        weight = 1 / 32 if self.aux.weight is None else self.aux.weight
        if len(dead) == 0:
            return None, weight
        k = min(self.aux.k or max(1, featurizer.d_in // (2 * featurizer.block_size)), len(dead))
        few = pre.reshape(len(pre), featurizer.n_blocks, -1)[:, dead].reshape(len(pre), -1)
        support = fast.select_topk(few, featurizer.block_size, k, featurizer.sign)
        indices = dead.to(torch.int32)[support.indices.long()]
        return Support(support.indptr, indices, featurizer.n_blocks), weight

    @torch.no_grad()
    def _next_support(self, pre: Tensor, taken: Support) -> tuple[Support | None, float]:
        """Return the largest blocks after the taken ones, and α."""
        assert self.aux is not None
        featurizer = self.featurizer
        k = min(self.aux.k or max(1, round(len(taken.indices) / len(pre))), featurizer.n_blocks)
        rest = pre.reshape(len(pre), featurizer.n_blocks, -1).clone()
        rest[taken.rows, taken.indices.long()] = 0
        weight = 1 / k if self.aux.weight is None else self.aux.weight
        return fast.select_topk(rest.reshape(len(pre), -1), featurizer.block_size, k, featurizer.sign), weight
