"""`Featurizer`: encoder × cone × gate × dictionary, over blocks of size b.

    raw rows ──units──▶ x ──encoder──▶ pre-code ──cone──▶ ──gate──▶ code ──dictionary──▶ reconstruction ──units──▶ raw

The zoo names the products. What a user sees (`atoms`, `bias`, `encode`, `decode`) is in raw activation units; what the
optimiser sees (`codes`, `reconstruct`) is in training units.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from monoseme.core.code import Code
from monoseme.core.cones import Sign, project
from monoseme.core.errors import refuse
from monoseme.core.kernels import fast
from monoseme.core.protocols import Refine
from monoseme.core.rows import as_tensor
from monoseme.core.support import Support
from monoseme.featurizers import refine as refinement
from monoseme.featurizers.dictionaries import Dictionary
from monoseme.featurizers.encoders import Encoder
from monoseme.featurizers.gates import Gate
from monoseme.featurizers.units import Units

__all__ = ["Featurizer"]

ENCODE_FLOATS = 1 << 26  # pre-codes held at once while encoding: 256 MB


class Featurizer(nn.Module):
    """A product of four parts, made by a constructor of the zoo: ``TopK(d_in=768, n_blocks=4096, k=32)``.

    Parameters
    ----------
    encoder, gate, dictionary
        The parts; see their files.
    sign
        The cone, ``"nonneg"`` or ``"free"``.
    units
        Shift and scale between raw and training units.
    learn_bias
        Whether the output bias is trained. The paper has none and centres the data instead.
    recipe
        Name and arguments of the zoo's constructor, by which a saved file is built again.
    """

    sign: Sign

    def __init__(
        self,
        encoder: Encoder,
        sign: Sign,
        gate: Gate,
        dictionary: Dictionary,
        units: Units,
        learn_bias: bool,
        recipe: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.encoder, self.sign, self.gate, self.dictionary, self.units = encoder, sign, gate, dictionary, units
        self.out_bias = nn.Parameter(torch.zeros(len(units.shift)), requires_grad=learn_bias)
        self.recipe = dict(recipe)
        encoder.start(dictionary.atoms, 1.0)
        gate.refresh(dictionary.atoms)

    # -- what it is

    @property
    def n_blocks(self) -> int:
        """G."""
        return self.dictionary.shape[0]

    @property
    def block_size(self) -> int:
        """Coordinates of a block, b."""
        return self.dictionary.shape[1]

    @property
    def d_in(self) -> int:
        """Width of a row."""
        return len(self.units.shift)

    @property
    def atoms(self) -> Float[Tensor, "G b d"]:
        """Directions: unit-norm, of block norm at most one, or orthonormal; codes carry the scale of raw units."""
        return self.dictionary.atoms.detach()

    @property
    def bias(self) -> Float[Tensor, " d"]:
        """Reconstruction of a row without any active block, raw units."""
        return (self.units.shift + self.units.scale * self.out_bias).detach()

    def extra_repr(self) -> str:
        """Name and sizes."""
        return f"{self.recipe.get('name')}: d_in={self.d_in}, n_blocks={self.n_blocks}, block_size={self.block_size}"

    # -- raw units: what a user calls

    @torch.no_grad()
    def encode(self, x: Float[Tensor, "*batch d"] | np.ndarray, refine: Refine = None) -> Code:
        """Codes of rows in raw units; no gradient (for one, call `codes` on ``units.enter(x)``).

        Parameters
        ----------
        x
            (..., d_in). Leading axes are kept in the code's `batch_shape`; the codes equal those of the flattened rows.
        refine
            ``None``: one pass, as trained. ``"ls"``: joint least squares on the same support. ``"omp"``: block
            orthogonal matching pursuit with as many blocks a row as the gate chose. Both respect the cone.

        Raises
        ------
        UserError
            If the width is not `d_in` or a row is not finite.
        """
        if refine not in (None, "ls", "omp"):
            raise refuse("refine", "be None, 'ls' or 'omp'", repr(refine), "None is the code as trained.")
        x = as_tensor(x, "x")
        flat = self._rows(x)
        size = max(1, ENCODE_FLOATS // (self.n_blocks * self.block_size))
        parts = [self._encode(flat[i : i + size], refine) for i in range(0, max(len(flat), 1), size)]
        code = parts[0] if len(parts) == 1 else Code.cat(parts)
        return Code(code.indptr, code.indices, code.values, code.n_blocks, tuple(x.shape[:-1]))

    def _encode(self, rows: Float[Tensor, "n d"], refine: Refine) -> Code:
        x = self.units.enter(rows)
        support, values, _ = self.codes(x)
        if refine == "ls":
            values = refinement.least_squares(x - self.out_bias, support, self.dictionary.atoms, self.sign)
        elif refine == "omp":
            sizes = support.indptr.diff()
            support, values = refinement.pursue(x - self.out_bias, sizes, self.dictionary.atoms, self.sign)
        support, values = _drop_zeros(support, values)
        return Code(support.indptr, support.indices, values * self.units.scale, self.n_blocks)

    @torch.no_grad()
    def decode(self, code: Code) -> Float[Tensor, "*batch d"]:
        """``code @ atoms + bias``, in raw units."""
        if code.n_blocks != self.n_blocks or code.block_size != self.block_size:
            raise refuse(
                "code",
                f"have {self.n_blocks} blocks of size {self.block_size}",
                f"{code.n_blocks} of size {code.block_size}",
                "Decode it with the featurizer that made it.",
            )
        code, atoms = code.to(self.atoms.device), self.atoms
        rows = fast.decode(code.values.to(atoms.dtype), code.support, atoms) + self.bias
        return rows.reshape(*code.batch_shape, self.d_in)

    def _rows(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "n d"]:
        if x.ndim < 1 or x.shape[-1] != self.d_in:
            raise refuse(
                "x",
                f"have width d_in = {self.d_in} on its last axis",
                tuple(x.shape),
                "Use activations of the hook this featurizer was fitted on.",
            )
        if not x.is_floating_point():
            raise refuse("x", "be floating point", x.dtype, "Convert it with .float().")
        flat = x.reshape(-1, self.d_in)
        finite = torch.isfinite(flat.to(self.units.shift.dtype)).all(1)  # 1e300 is infinite in single precision
        if not bool(finite.all()):
            bad = int((~finite).nonzero()[0])
            raise refuse("x", "be finite", f"NaN or infinity in row {bad}", "Drop the row, or find what made it.")
        return flat

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Reconstruct raw rows in raw units, with gradients: ``f(x)`` equals ``decode(encode(x))``."""
        rows = self.reconstruct(self.units.enter(self._rows(x)))
        return (rows * self.units.scale + self.units.shift).reshape(x.shape)

    # -- training units: what the optimiser calls

    def codes(
        self, x: Float[Tensor, "n d"], training: bool = False
    ) -> tuple[Support, Float[Tensor, "nnz b"], Float[Tensor, "n Gb"]]:
        """Support and codes of training rows, with gradients through the codes (the fast path).

        The dense pre-code that found the support comes third, without gradient: AuxK looks further down in it.
        `training` lets a gate select as it does in training, where that differs (`BatchTopK`).
        """
        atoms = self.dictionary.atoms
        with torch.no_grad():
            pre = self.encoder.pre(x, atoms).to(x.dtype)  # under autocast the product comes in half precision
            support = self.gate.select(pre, self.block_size, self.sign, training)
        values = project(self.encoder.values_at(x, atoms, support, pre), self.sign)
        return support, self.gate.shrink(values, support), pre

    def codes_dense(self, x: Float[Tensor, "n d"], training: bool = False) -> Float[Tensor, "n G b"]:
        """The same codes with zeros written out, by dense autograd: the slow twin of `codes`."""
        pre = self.encoder.pre(x, self.dictionary.atoms)
        support = self.gate.select(pre.detach(), self.block_size, self.sign, training)
        blocks = project(pre.reshape(len(x), self.n_blocks, self.block_size), self.sign)
        return self.gate.dense(blocks, support)

    def put_together(
        self, values: Float[Tensor, "nnz b"], support: Support, pre: Float[Tensor, "n Gb"]
    ) -> Float[Tensor, "n d"]:
        """What `codes` returned, back to training rows, with gradients to the gate's thresholds as well."""
        atoms = self.dictionary.atoms
        x_hat = fast.decode(values, support, atoms) + self.out_bias
        edge = self.gate.edge(pre, atoms.detach(), self.sign)
        return x_hat if edge is None else x_hat + edge

    def reconstruct(self, x: Float[Tensor, "n d"], *, dense: bool = False) -> Float[Tensor, "n d"]:
        """Training rows through the featurizer and back, with gradients."""
        if dense:
            z = self.codes_dense(x)
            return z.reshape(len(x), -1) @ self.dictionary.weight + self.out_bias
        support, values, pre = self.codes(x)
        return self.put_together(values, support, pre)

    # -- scikit-learn manner

    def fit(self, X: Tensor | np.ndarray, y: None = None, **options: Any) -> Featurizer:
        """Train on the rows of X in place; options as in `monoseme.fit`, batches no larger than X. Returns self."""
        from monoseme.core.rows import ArrayRows
        from monoseme.featurizers.fitting import fit

        rows = ArrayRows(X)
        fit(self, rows, **({"batch_size": min(2048, len(rows))} | options))
        return self

    def transform(self, X: Tensor | np.ndarray) -> Any:
        """Codes of the rows of X as a SciPy sparse array (n, G·b), raw units."""
        from scipy.sparse import csr_array

        code = self.encode(X).to("cpu")
        b = code.block_size
        columns = (code.indices.long().unsqueeze(1) * b + torch.arange(b)).reshape(-1)
        shape = (code.n_rows, code.n_blocks * b)
        values = code.values.to(torch.promote_types(code.values.dtype, torch.float32))  # SciPy knows no half precision
        return csr_array((values.reshape(-1).numpy(), columns.numpy(), (code.indptr * b).numpy()), shape=shape)

    def save(self, path: str | Path) -> Path:
        """Write the folder `path` (safetensors + JSON); see `monoseme.load`."""
        from monoseme.featurizers.io import save

        return save(self, Path(path))


def _drop_zeros(support: Support, values: Float[Tensor, "nnz b"]) -> tuple[Support, Float[Tensor, "kept b"]]:
    """A block whose code is exactly zero is not active: it must count neither in L0 nor in bits."""
    keep = (values != 0).any(1)
    if bool(keep.all()):
        return support, values
    counts = torch.bincount(support.rows[keep], minlength=support.n_rows)
    indptr = torch.zeros_like(support.indptr)
    torch.cumsum(counts, 0, out=indptr[1:])
    return Support(indptr, support.indices[keep], support.n_blocks), values[keep]


def closed_form_gain(featurizer: Featurizer, x: Float[Tensor, "n d"]) -> float:
    """The factor on one-pass codes, selected as in training, that reconstructs these rows best: γ* = Σ⟨x, p⟩ / Σ‖p‖².

    With it, the reconstruction of the average row is unbiased before the first step, whatever the width of the
    dictionary and the norm of its atoms.
    """
    with torch.no_grad():
        support, values, _ = featurizer.codes(x, training=True)
        p = fast.decode(values, support, featurizer.dictionary.atoms)
        power = float(p.square().sum())
        return max(float((x * p).sum()) / power, 1e-3) if power > 0 else 1.0
