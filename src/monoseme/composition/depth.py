"""Which depth to take for a picture: a line through the depths that were best, against how far pictures compress.

arXiv 2606.19941 says that the best depth is about linear in the PNG ratio. The line is least squares; a prediction's
interval is that of a new picture, wide with few of them; outside the range that was seen, it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.png import PngSettings, png_ratio
from monoseme.core.errors import refuse
from monoseme.core.outcome import Outcome, unknown

__all__ = ["DepthLine", "fit_depth", "predict_depth"]

FEWEST = 3


@dataclass(frozen=True)
class DepthLine:
    """Best depth = intercept + slope · ratio.

    Attributes
    ----------
    slope, intercept
        Layers per unit of ratio, with a 95 % interval; layers.
    left_out
        Root mean square error in layers when each picture is predicted from the others; lower is better.
    ratios, depths
        What it was fitted to.
    settings
        How ratios were taken; predictions must take theirs alike.
    """

    slope: Outcome
    intercept: float
    left_out: Outcome
    ratios: tuple[float, ...]
    depths: tuple[float, ...]
    settings: dict[str, Any]

    def predict(self, ratio: float) -> Outcome:
        """Depth for a picture of this ratio, with the 95 % interval for a new picture."""
        from scipy.stats import t

        x, y = np.array(self.ratios), np.array(self.depths)
        n, spread = len(x), float(np.square(x - x.mean()).sum())
        value = self.intercept + (self.slope.value or 0.0) * ratio
        residual = float(np.square(y - self.intercept - (self.slope.value or 0.0) * x).sum())
        error = np.sqrt(residual / (n - 2) * (1 + 1 / n + (ratio - x.mean()) ** 2 / spread))
        half = float(t.ppf(0.975, n - 2) * error)
        outside = not min(self.ratios) <= ratio <= max(self.ratios)
        note = f"from {n} pictures" + ("; outside the range of ratios that was seen" if outside else "")
        return Outcome("depth", value, "layers", value - half, value + half, n=n, n_unit="pictures", note=note)


def fit_depth(
    pictures: Sequence[Float[Tensor, "h w 3"]], depths: Sequence[float], settings: PngSettings | None = None
) -> DepthLine:
    """Fit the line to pictures of one size and their best depths; at least three, of different ratios."""
    settings = settings or PngSettings()
    if len(pictures) != len(depths) or len(pictures) < FEWEST:
        got = f"{len(pictures)} and {len(depths)}"
        raise refuse("pictures and depths", f"be equally many, at least {FEWEST}", got, "A line needs three.")
    if len({tuple(picture.shape) for picture in pictures}) > 1:
        raise refuse("pictures", "have one size", "several", "Ratios of other sizes do not compare.")
    ratios = [png_ratio(picture, settings) for picture in pictures]
    if max(ratios) - min(ratios) < 1e-9:
        raise refuse("pictures", "have different ratios", ratios[0], "Add another picture.")
    x, y = np.array(ratios), np.array(depths, dtype=np.float64)
    slope, intercept = _line(x, y)
    return DepthLine(
        _slope(x, y, slope, intercept), intercept, _left_out(x, y), tuple(ratios), tuple(y.tolist()), settings.about
    )


def predict_depth(picture: Float[Tensor, "h w 3"], line: DepthLine, settings: PngSettings | None = None) -> Outcome:
    """Depth to take for a picture; its ratio is taken as the line's were."""
    settings = settings or PngSettings()
    if settings.about != line.settings:
        raise refuse("settings", f"be those of the line, {line.settings}", settings.about, "Fit the line here anew.")
    return line.predict(png_ratio(picture, settings))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / np.square(x - x.mean()).sum())
    return slope, float(y.mean() - slope * x.mean())


def _slope(x: np.ndarray, y: np.ndarray, slope: float, intercept: float) -> Outcome:
    from scipy.stats import t

    n = len(x)
    residual = float(np.square(y - intercept - slope * x).sum())
    half = float(t.ppf(0.975, n - 2) * np.sqrt(residual / (n - 2) / np.square(x - x.mean()).sum()))
    return Outcome("slope", slope, "layers", slope - half, slope + half, n=n, n_unit="pictures")


def _left_out(x: np.ndarray, y: np.ndarray) -> Outcome:
    missed = []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        if np.ptp(x[others]) < 1e-9:
            return unknown("left_out", "layers", "without one picture the others have one ratio")
        slope, intercept = _line(x[others], y[others])
        missed.append(y[i] - intercept - slope * x[i])
    value = float(np.sqrt(np.mean(np.square(missed))))
    return Outcome("left_out", value, "layers", better="lower", n=len(x), n_unit="pictures")
