"""Opening a model and reaching inside it. Reading order: `layout`, `hooked`, `vit`, `dinov2_saliency`, `open`."""

from monoseme.models.hooked import HookedModel, ModelFacts, TokenGrid
from monoseme.models.open import open_model

__all__ = ["HookedModel", "ModelFacts", "TokenGrid", "open_model"]
