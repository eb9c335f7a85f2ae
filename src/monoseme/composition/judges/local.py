"""A vision-language model on this machine, through transformers: p(yes) against p(no) of the next word.

Comparing probabilities is steadier than reading a written answer, and needs one forward pass. Models that think before
they answer have no such word, so all their verdicts are invalid: serve them at an endpoint instead.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Answer, Verdict, eight_bit
from monoseme.core.errors import refuse
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.hugging import ask, read_weights

__all__ = ["LocalJudge", "open_local"]

QUESTION = (
    "Does this picture show {thing}? It may be stylised, distorted or in odd colours; what counts is whether a person "
    "would still call it {thing}. Answer with one word, yes or no."
)
WORDS: Mapping[str, tuple[str, ...]] = {"yes": ("yes", "Yes", " yes", " Yes"), "no": ("no", "No", " no", " No")}
LEAST = 0.5  # probability on both words together, below which the model answers something else


class LocalJudge:
    """Asks a model of transformers whether a picture shows a thing.

    Parameters
    ----------
    thing
        With its article: "a skull".
    model, processor
        An image-text-to-text model and its processor, as `open_local` gives them.
    name
        Of the model. Kept verdicts are those of its weights, whatever it is called.
    doubt
        Half width of p(yes) ÷ (p(yes) + p(no)) about 0.5 that is "unsure".

    Raises
    ------
    UserError
        A tokenizer that does not know yes and no as single tokens; a processor without a chat template.
    """

    batch = 1

    def __init__(self, thing: str, model: Any, processor: Any, name: str, doubt: float = 0.1) -> None:
        if not thing.strip():
            raise refuse("thing", "say what the picture shows", repr(thing), 'For example "a skull".')
        if not 0 <= doubt < 0.5:
            raise refuse("doubt", "lie in 0…0.5", doubt, "0.1 calls 0.4 to 0.6 unsure.")
        self.thing, self.model, self.processor, self.doubt = thing, model, processor, doubt
        self.ids = _answers(processor.tokenizer)
        prompt = _prompt(processor, self._messages())
        opened = HookedModel(model, ModelFacts(name))
        self.about: Mapping[str, Any] = {
            "judge": "local",
            "model": name,
            "weights": opened.revision,
            "dtype": str(opened.dtype),
            "pictures": processor.image_processor.to_json_string(),
            "prompt": hashlib.sha256(prompt.encode()).hexdigest(),
            "thing": thing,
            "doubt": doubt,
        }

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """One verdict a picture; the score is the share of yes in the probability on both words."""
        return [self._one(picture) for picture in pictures]

    def _messages(self, **picture: Any) -> list[dict[str, Any]]:
        content = [{"type": "image", **picture}, {"type": "text", "text": QUESTION.format(thing=self.thing)}]
        return [{"role": "user", "content": content}]

    @torch.no_grad()
    def _one(self, picture: Float[Tensor, "h w 3"]) -> Verdict:
        from PIL import Image

        # tokenized by the template's own rules: as a text of its own, it would get a second mark of beginning
        inputs = self.processor.apply_chat_template(
            self._messages(image=Image.fromarray(eight_bit(picture))),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        ).to(self.model.device, self.model.dtype)  # whole numbers keep their type
        last = self.model(**inputs).logits[0, -1].double().softmax(0)
        yes, no = (float(last[self.ids[word]].sum()) for word in ("yes", "no"))
        if not math.isfinite(yes + no) or yes + no < LEAST:
            return Verdict("invalid", None, f"yes and no have {yes + no:.2f} of the probability")
        share = yes / (yes + no)
        answer: Answer = "unsure" if abs(share - 0.5) < self.doubt else "yes" if share > 0.5 else "no"
        return Verdict(answer, share, f"{yes + no:.2f} on yes and no")


def open_local(name: str) -> tuple[Any, Any]:
    """Open a model and its processor, from a folder or the hub; safetensors only, and no code beside it is run."""
    try:
        import transformers
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    except ImportError:
        raise refuse("model", "be opened by transformers", "not installed", "pip install transformers.") from None
    config = ask(name, lambda: transformers.AutoConfig.from_pretrained(name, trust_remote_code=False))
    if config.model_type not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        fix = "For example Qwen/Qwen3-VL-4B-Instruct."
        raise refuse("model", "be a vision-language model", f"{name}, of type {config.model_type}", fix)
    processor = ask(name, lambda: transformers.AutoProcessor.from_pretrained(name, trust_remote_code=False))
    if not (hasattr(processor, "tokenizer") and hasattr(processor, "image_processor")):
        got = f"{name}, with a {type(processor).__name__} only"
        raise refuse("model", "come with a processor of pictures and text", got, "Save the model's own beside it.")
    return read_weights(name, transformers.AutoModelForImageTextToText, config), processor


def _prompt(processor: Any, messages: list[dict[str, Any]]) -> str:
    """What the template makes of the question."""
    if not processor.chat_template:
        raise refuse("processor", "have a chat template", "none", "Save the model's chat_template.jinja beside it.")
    return processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def _answers(tokenizer: Any) -> dict[str, Tensor]:
    """Ids of those spellings of yes and no that are one token, and nothing else's: an unknown word is one too."""
    found = {}
    for answer, spellings in WORDS.items():
        encoded = [tokenizer.encode(spelling, add_special_tokens=False) for spelling in spellings]
        ids = {one[0] for one in encoded if len(one) == 1 and tokenizer.decode(one).strip().lower() == answer}
        if not ids:
            got = f"none of {', '.join(map(repr, spellings))}"
            raise refuse("model", "have yes and no as single tokens", got, "Serve it, and use EndpointJudge.")
        found[answer] = torch.tensor(sorted(ids))
    return found
