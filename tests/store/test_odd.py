"""Faults once found by trying to break the store: arguments of another type, mixed data, patterns that are none."""

import subprocess
import sys

# Without the shape checker that stands before every function in the tests: users have none.
MISTAKES = {
    "TokenPolicy(context=12.5)": "context must be a whole number, at least 1 token; got 12.5.",
    "TokenPolicy(context='x')": "context must be a whole number, at least 1 token; got 'x'.",
    "TokenPolicy(positions=5)": "positions must be (start, stop) with 0 <= start < stop; got 5.",
    "TokenPolicy(max_norm='a')": "max_norm must be above 1, in medians of the norm; got a.",
    "Recipe('embed', batch_size=2.5)": "batch_size must be a whole number; got 2.5.",
    "Recipe('embed', batch_size='3')": "batch_size must be a whole number; got '3'.",
    "Recipe('embed', shard_rows=10.5)": "shard_rows must be a whole number; got 10.5.",
    "Recipe('embed', seed=1.5)": "seed must be a whole number; got 1.5.",
    "Recipe('embed', dtype=[])": "dtype must be one of float32, bfloat16, float16; got [].",
    "Recipe(5)": "at must be the name of a hook; got 5.",
    "assign_splits(['a'], 'abc')": "split must be three shares (train, validation, test) that add up to 1",
    "assign_splits(['a'], 5)": "split must be three shares (train, validation, test) that add up to 1",
    "harvest(model, [{'input_ids': [1, 2]}, 'abc'], '0', 's')": "data must hold input_ids in every sample",
    "harvest(model, [{'input_ids': [[1], [2, 3]]}], '0', 's')": "data must hold input_ids (T,) of integers",
    "TextFolder('.', '/etc/*')": "pattern must be a pattern below the folder; got '/etc/*'",
    "TextFolder('.', '')": "pattern must be a pattern below the folder; got ''",
    "TextFolder('.', '**x/*.txt')": "pattern must be a pattern below the folder; got '**x/*.txt'",
    "TextFolder('.', encoding='a\\0b')": "encoding must be one that Python knows; got 'a\\x00b'.",
}  # fmt: skip


def test_mistakes_without_the_shape_checker(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    script = f"""
from torch import nn
from monoseme.core.errors import UserError
from monoseme.models import HookedModel, ModelFacts
from monoseme.store import TextFolder, TokenPolicy, harvest
from monoseme.store.recipe import Recipe
from monoseme.store.sources import assign_splits
model = HookedModel(nn.Sequential(nn.Embedding(10, 4)), ModelFacts("toy"))
for mistake in {list(MISTAKES)!r}:
    try:
        eval(mistake)
    except UserError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for line, expected in zip(done.stdout.splitlines(), MISTAKES.values(), strict=True):
        assert line.startswith(expected)
