"""Reference networks of five families, small and readable, with exact parameter counts: what shapes are compared on."""

from monoseme.models.families.cnn import CNN, CNNShape
from monoseme.models.families.family import FAMILIES, Family, Shape, family
from monoseme.models.families.gpt import GPT, GPTShape
from monoseme.models.families.gru import GRU, GRUShape
from monoseme.models.families.mlp import MLP, MLPShape
from monoseme.models.families.vit import ViT, ViTShape

__all__ = [
    "CNN",
    "FAMILIES",
    "GPT",
    "GRU",
    "MLP",
    "CNNShape",
    "Family",
    "GPTShape",
    "GRUShape",
    "MLPShape",
    "Shape",
    "ViT",
    "ViTShape",
    "family",
]
