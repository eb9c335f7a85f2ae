"""Opening a model and reaching inside it.

Reading order: `facts`, `layout`, `probe`, `hooked`, `vit`, `dinov2_saliency`, `llama`, `byte_bpe`, `smollm2`,
`efficientnet`, `state`, `inception`, `dinov3`, `hugging`, `prompts`, `clock`, `pipelines`, `pipeline_files`, `open`.
"""

from monoseme.models.facts import ModelFacts, TokenGrid, Tokenizer
from monoseme.models.hooked import HookedModel
from monoseme.models.layout import logits
from monoseme.models.open import open_model
from monoseme.models.pipelines import HookedPipeline

__all__ = ["HookedModel", "HookedPipeline", "ModelFacts", "TokenGrid", "Tokenizer", "logits", "open_model"]
