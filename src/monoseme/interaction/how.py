"""How an AGOP is computed: every choice that changes the number or its cost, by name."""

from __future__ import annotations

from dataclasses import dataclass

from monoseme.core.errors import closest, refuse

__all__ = ["How"]


@dataclass(frozen=True)
class How:
    """Choices of `agop`.

    Attributes
    ----------
    positions
        Input side: "mean" divides by the number T of tokens, patches or windows of a sample; "sum" does not.
    view
        Coordinates: "auto" (patches at convolutions, flat at a network's own picture, else tokens), "tokens", "flat",
        "patches" or "windows"; see `views`.
    window
        Side of a window, odd.
    method
        Of exact Jacobians: "vjp" (K + 1 passes), "jvp" (2 D + 1), or "auto", the cheaper one.
    law
        Of probes: "rademacher" or "gaussian".
    seed
        Of probes.
    memory
        Bytes for sums, graphs and gradients together, an estimate. A matrix that does not fit is not formed: its
        factors are kept instead.
    chunk
        Samples at once; None: as many as fit, at most 32, from where on nothing is gained.
    """

    positions: str = "mean"
    view: str = "auto"
    window: int = 3
    method: str = "auto"
    law: str = "rademacher"
    seed: int = 0
    memory: int = 1 << 30
    chunk: int | None = None

    def __post_init__(self) -> None:
        for name, options in (("positions", ("mean", "sum")), ("method", ("auto", "vjp", "jvp"))):
            value = getattr(self, name)
            if value not in options:
                raise refuse(name, f"be one of {', '.join(options)}", repr(value), closest(str(value), options))
        if self.memory < 1 << 20:
            raise refuse("memory", "be at least 1 MiB, in bytes", self.memory, "The default is 1 << 30.")
        if self.chunk is not None and self.chunk < 1:
            raise refuse("chunk", "be at least 1 sample, or None", self.chunk, "None lets memory decide.")
