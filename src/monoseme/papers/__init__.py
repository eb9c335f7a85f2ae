"""One folder a paper: its claims, its recipe, its figures."""

from __future__ import annotations

from importlib import import_module, resources

from monoseme.core.errors import closest, refuse
from monoseme.records import Claims
from monoseme.records.reproduce import Recipe

__all__ = ["PAPERS", "find"]

# the function that measures a paper's claims, as module:function; claims.toml lies beside the module
PAPERS = {"bsf": "monoseme.papers.bsf.manifolds:recipe"}


def find(name: str) -> tuple[Claims, Recipe]:
    """Claims of a paper and the recipe that measures them."""
    if name not in PAPERS:
        raise refuse("paper", "be one that is reproduced here", repr(name), closest(name, PAPERS))
    module, function = PAPERS[name].split(":")
    with resources.as_file(resources.files(module.rpartition(".")[0]) / "claims.toml") as path:
        claims = Claims.load(path)
    return claims, getattr(import_module(module), function)
