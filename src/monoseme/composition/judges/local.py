"""A vision-language model on this machine, through transformers: p(yes) against p(no) of the next word.

Comparing probabilities is steadier than reading a written answer, and needs one forward pass. Models that think before
they answer have no such word: serve them at an endpoint instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Answer, Verdict, eight_bit
from monoseme.core.errors import refuse

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
        Of the model, for the cache.
    doubt
        Half width of p(yes) ÷ (p(yes) + p(no)) about 0.5 that is "unsure".
    """

    batch = 1

    def __init__(self, thing: str, model: Any, processor: Any, name: str, doubt: float = 0.1) -> None:
        if not thing.strip():
            raise refuse("thing", "say what the picture shows", repr(thing), 'For example "a skull".')
        if not 0 <= doubt < 0.5:
            raise refuse("doubt", "lie in 0…0.5", doubt, "0.1 calls 0.4 to 0.6 unsure.")
        self.thing, self.model, self.processor, self.doubt = thing, model, processor, doubt
        self.ids = {answer: _single(processor.tokenizer, words) for answer, words in WORDS.items()}
        self.about: Mapping[str, Any] = {"judge": "local", "model": name, "thing": thing, "doubt": doubt, "prompt": 1}

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """One verdict a picture; the score is the share of yes in the probability on both words."""
        return [self._one(picture) for picture in pictures]

    @torch.no_grad()
    def _one(self, picture: Float[Tensor, "h w 3"]) -> Verdict:
        from PIL import Image

        content = [{"type": "image"}, {"type": "text", "text": QUESTION.format(thing=self.thing)}]
        text = self.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        inputs = self.processor(images=[Image.fromarray(eight_bit(picture))], text=[text], return_tensors="pt")
        inputs = {key: value.to(self.model.device) for key, value in inputs.items()}
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
    except ImportError:
        raise refuse("model", "be opened by transformers", "not installed", "pip install transformers.") from None
    options: dict[str, Any] = {"trust_remote_code": False}
    try:
        processor = transformers.AutoProcessor.from_pretrained(name, **options)
        model = transformers.AutoModelForImageTextToText.from_pretrained(name, use_safetensors=True, **options)
    except (OSError, ValueError, KeyError) as error:
        got = f"{name} ({' '.join(str(error).split())[:160]})"
        raise refuse("model", "be a vision-language model with safetensors", got, "Check name and files.") from None
    return model.eval(), processor


def _single(tokenizer: Any, words: tuple[str, ...]) -> Tensor:
    """Ids of those spellings that are one token."""
    encoded = (tokenizer.encode(word, add_special_tokens=False) for word in words)
    ids = sorted({one[0] for one in encoded if len(one) == 1})
    if not ids:
        got = f"none of {', '.join(map(repr, words))}"
        raise refuse("model", "have yes and no as single tokens", got, "Serve it, and use EndpointJudge.")
    return torch.tensor(ids)
