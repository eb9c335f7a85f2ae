"""The optimiser of one object, and its state as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from monoseme.core.errors import refuse

__all__ = ["ObjectOptimiser"]


class ObjectOptimiser:
    """Adam, or Muon for the 2-D parameters with Adam for the others; the learning rate is given at every step.

    Parameters
    ----------
    parameters
        Those of one object. Frozen ones (``requires_grad=False``) are left out.
    kind
        ``"adam"``: Kingma & Ba 2015, betas (0.9, 0.999), eps 1e-8.
        ``"muon"``: Jordan et al. 2024 in torch's version: Nesterov momentum 0.95, five Newton-Schulz steps in bfloat16.
        Updates are scaled to the size of Adam's (factor 0.2 √max(A, B), Liu et al. 2025,
        arXiv 2502.16982), so that one learning rate serves both parts.
    weight_decay
        Decoupled: parameters are multiplied by 1 - lr · weight_decay before the update, in both parts.
    adam
        Parameters that Adam keeps under ``"muon"``, such as those of a first and a last layer.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        kind: Literal["adam", "muon"],
        weight_decay: float = 0.0,
        adam: Iterable[nn.Parameter] = (),
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if not self.parameters:
            raise refuse("objects", "have parameters to train", "none", "Unfreeze some with requires_grad_().")
        kept = list(adam)
        free = [p for p in self.parameters if all(p is not q for q in kept)]
        flat = [p for p in free if p.ndim == 2] if kind == "muon" else []
        others = [p for p in self.parameters if all(p is not q for q in flat)]
        self._parts: dict[str, torch.optim.Optimizer] = {}
        if flat:
            if not hasattr(torch.optim, "Muon"):
                raise refuse("optimiser", 'be "adam" with this torch', "muon", "Muon needs torch 2.9 or later.")
            self._parts["muon"] = torch.optim.Muon(flat, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
        if others:
            self._parts["adam"] = torch.optim.AdamW(others, weight_decay=weight_decay, fused=True)

    def place(self, x: Tensor) -> Tensor:
        """`x` on the device and in the dtype of the object's first parameter; itself when it is there already."""
        return x.to(self.parameters[0].device, self.parameters[0].dtype)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def gradient_norm(self) -> Tensor:
        """Norm of the whole gradient, a scalar; not finite when any entry is not."""
        return nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])

    def clip(self, largest: float, norm: Tensor) -> None:
        """Scale the gradient, whose norm is `norm`, down to norm `largest` when it is longer."""
        nn.utils.clip_grads_with_norm_(self.parameters, largest, norm)

    def step(self, lr: float) -> None:
        """One step at learning rate `lr`."""
        for part in self._parts.values():
            for group in part.param_groups:
                group["lr"] = lr
            part.step()

    def state(self) -> dict[str, Tensor]:
        """Moments and counters, named ``part.index.quantity``."""
        return {
            f"{name}.{index}.{quantity}": value
            for name, part in self._parts.items()
            for index, values in part.state_dict()["state"].items()
            for quantity, value in values.items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        for name, part in self._parts.items():
            values: dict[int, dict[str, Tensor]] = {}
            for key, value in state.items():
                owner, index, quantity = key.split(".")
                if owner == name:
                    values.setdefault(int(index), {})[quantity] = value.clone()
            part.load_state_dict({"state": values, "param_groups": part.state_dict()["param_groups"]})
