"""One folder a paper: its claims, its recipe, its figures."""

from __future__ import annotations

from importlib import import_module, resources

from monoseme.core.errors import closest, refuse
from monoseme.records import Claims
from monoseme.records.reproduce import Recipe

__all__ = ["PAPERS", "find"]

# what can be reproduced: the file of claims, and the module beside it whose `recipe` measures them
PAPERS = {
    "bsf": ("monoseme.papers.bsf", "claims.toml", "manifolds"),
    "bsf-blocks": ("monoseme.papers.bsf", "blocks.toml", "block_measures"),
    "bsf-concepts": ("monoseme.papers.bsf", "concepts.toml", "concept_measures"),
    "bsf-curves": ("monoseme.papers.bsf", "curves.toml", "curve_measures"),
    "bsf-digits": ("monoseme.papers.bsf", "digits.toml", "digit_measures"),
    "bsf-steering": ("monoseme.papers.bsf", "steering.toml", "steering_measures"),
    "bsf-variants": ("monoseme.papers.bsf", "variants.toml", "variants"),
    "composition": ("monoseme.papers.composition", "claims.toml", "measures"),
    "interaction": ("monoseme.papers.interaction", "claims.toml", "measures"),
    "interaction-reanalysis": ("monoseme.papers.interaction", "reanalysis.toml", "reanalysis"),
    "optimality": ("monoseme.papers.optimality", "claims.toml", "theory"),
    "optimality-remedies": ("monoseme.papers.optimality", "remedies.toml", "remedies"),
}


def find(name: str) -> tuple[Claims, Recipe]:
    """Claims of a paper and the recipe that measures them."""
    if name not in PAPERS:
        raise refuse("paper", "be one that is reproduced here", repr(name), closest(name, PAPERS))
    folder, table, module = PAPERS[name]
    with resources.as_file(resources.files(folder) / table) as path:
        claims = Claims.load(path)
    return claims, import_module(f"{folder}.{module}").recipe
