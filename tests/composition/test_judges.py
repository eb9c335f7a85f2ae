"""Cascade, person, local model, and how far judges agree."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.composition.agreement import agreement, cohen, fleiss
from monoseme.composition.emc2 import emc2
from monoseme.composition.judges import (
    CascadeJudge,
    LocalJudge,
    PersonJudge,
    PixelJudge,
    Verdict,
    contact_sheet,
    open_local,
)
from monoseme.composition.judges.protocol import eight_bit, picture_key
from monoseme.composition.scenes import scene
from monoseme.core.seeds import generator, rng

PICTURES = [torch.rand(8, 8, 3, generator=generator(i, "picture")) for i in range(5)]


class Fixed:
    """Answers in a row, whatever is shown; keeps what it was shown."""

    def __init__(self, verdicts: Sequence[Verdict], batch: int = 2, name: str = "fixed") -> None:
        self.verdicts, self.batch, self.about, self.shown = list(verdicts), batch, {"judge": name}, []

    def judge(self, pictures: torch.Tensor) -> list[Verdict]:
        assert len(pictures) <= self.batch
        self.shown += [picture_key(eight_bit(one)) for one in pictures]
        found, self.verdicts = self.verdicts[: len(pictures)], self.verdicts[len(pictures) :]
        return found


def test_only_doubtful_pictures_go_on_to_the_second_judge() -> None:
    said = [("yes", 0.9), ("no", 0.1), ("yes", 0.5), ("unsure", 0.9), ("yes", None)]
    first = Fixed([Verdict(answer, score) for answer, score in said], batch=8)  # pyright: ignore[reportArgumentType]
    second = Fixed([Verdict("no", None, "saw it"), Verdict("yes"), Verdict("invalid")])
    judge = CascadeJudge(first, second, 0.4, 0.6)
    found = judge.judge(torch.stack(PICTURES))
    assert [one.answer for one in found] == ["yes", "no", "no", "yes", "invalid"]
    assert second.shown == [picture_key(eight_bit(PICTURES[i])) for i in (2, 3, 4)]
    assert (judge.sent, judge.seen) == (3, 5)
    assert found[2].note == "second judge; saw it"


def test_a_cascade_scores_as_its_second_judge_where_the_band_is_everything(tmp_path: Path) -> None:
    genome = scene("face")
    picture = genome.render(16).float()
    costly = PixelJudge(picture, 0.05)
    all_doubt = CascadeJudge(PixelJudge(picture, 0.3), costly, 0.0, 1.0)
    whole = emc2(genome, costly, 0.5, size=16)
    assert emc2(genome, all_doubt, 0.5, size=16).score == whole.score
    assert all_doubt.sent == all_doubt.seen
    assert all_doubt.about != CascadeJudge(PixelJudge(picture, 0.3), costly, 0.0, 0.5).about


def filled(path: Path, answers: Sequence[str]) -> None:
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([lines[0], *[[line[0], a] for line, a in zip(lines[1:], answers, strict=True)]])


def test_a_person_answers_through_the_sheet(tmp_path: Path) -> None:
    blank = torch.zeros(8, 8, 3)
    sheet = tmp_path / "sheet.html"
    assert contact_sheet([*PICTURES, PICTURES[0]], "a <skull>", sheet, canaries=[blank]) == 6  # equal ones once
    text = sheet.read_text()
    assert text.count("data:image/png") == 6
    assert "a &lt;skull&gt;" in text
    assert "http" not in text.replace("http-equiv", "")  # nothing is loaded
    empty = PersonJudge(tmp_path / "sheet.csv")
    assert {one.answer for one in empty.judge(torch.stack(PICTURES))} == {"invalid"}
    answers = ["yes", "no", "unsure", "", "yes", "no"]
    filled(tmp_path / "sheet.csv", answers)
    judge = PersonJudge(tmp_path / "sheet.csv", [(blank, "no")])
    order = [line.split(",")[0] for line in (tmp_path / "sheet.csv").read_text().splitlines()[1:]]
    for key, answer in zip(order, answers, strict=True):
        mine = [one for one in [*PICTURES, blank] if picture_key(eight_bit(one)) == key]
        assert judge.judge(torch.stack(mine))[0].answer == (answer or "invalid")
    said = answers[order.index(picture_key(eight_bit(blank)))]
    assert judge.agreement == (int(said == "no"), int(said != ""))
    assert judge.judge(torch.ones(1, 8, 8, 3))[0].note == "not on the sheet"
    assert judge.about != empty.about


def test_the_sheet_does_not_follow_the_order_it_was_given(tmp_path: Path) -> None:
    contact_sheet(PICTURES, "a skull", tmp_path / "a.html", seed=3)
    contact_sheet(PICTURES[::-1], "a skull", tmp_path / "b.html", seed=3)
    keys = [[line.split(",")[0] for line in (tmp_path / f"{n}.csv").read_text().splitlines()[1:]] for n in "ab"]
    assert sorted(keys[0]) == sorted(keys[1])
    assert keys[0] != [picture_key(eight_bit(one)) for one in PICTURES]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "begin with picture,answer"),
        ("key,verdict\n", "begin with picture,answer"),
        (f"picture,answer\n{'a' * 64},maybe\n", "line 2"),
        ("picture,answer\nshort,yes\n", "line 2"),
        (f"picture,answer\n{'a' * 64},yes\n{'a' * 64},no\n", "one a picture"),
    ],
)
def test_a_wrong_csv_is_refused(tmp_path: Path, content: str, word: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    check_refused(lambda: PersonJudge(tmp_path / "a.csv"), word)


def tiny_model(folder: Path, words: Sequence[str] = ("yes", "no", "Yes", "No")) -> None:
    """A vision-language model with random weights, saved with its processor."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", "<image>", "USER", *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, additional_special_tokens=["<image>"], **special
    )
    pictures = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    template = "{% for m in messages %}USER {% for c in m['content'] %}{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endfor %}"  # noqa: E501
    processor = transformers.LlavaProcessor(
        pictures, tokenizer, patch_size=8, vision_feature_select_strategy="default", chat_template=template,
        num_additional_image_tokens=1,
    )  # fmt: skip
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8
    )
    text = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.LlavaForConditionalGeneration(config)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


@pytest.mark.filterwarnings("ignore")  # of transformers, about itself
def test_a_local_model_is_asked_for_its_next_word(tmp_path: Path) -> None:
    tiny_model(tmp_path)
    model, processor = open_local(str(tmp_path))
    judge = LocalJudge("a skull", model, processor, "tiny")
    with torch.no_grad():
        head = model.lm_head.weight
        head.zero_()
    first = judge.judge(torch.stack(PICTURES[:1]))[0]
    assert first.answer == "invalid"  # uniform over ten words: yes and no, in two spellings, have 0.4
    assert "0.40" in first.note or first.score is None
    hidden: list[torch.Tensor] = []
    handle = model.lm_head.register_forward_hook(lambda _m, args, _o: hidden.append(args[0][0, -1].detach()))
    judge.judge(torch.stack(PICTURES[:1]))
    handle.remove()
    for word, answer in (("yes", "yes"), ("No", "no")):
        with torch.no_grad():
            head.zero_()
            head[processor.tokenizer.convert_tokens_to_ids(word)] = 20 * hidden[0] / hidden[0].norm() ** 2
        found = judge.judge(torch.stack(PICTURES[:2]))
        assert found[0].answer == answer
        assert found[0].score == pytest.approx(1.0 if answer == "yes" else 0.0, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_the_words_is_refused(tmp_path: Path) -> None:
    tiny_model(tmp_path, words=("maybe",))
    model, processor = open_local(str(tmp_path))
    processor.tokenizer.encode = lambda word, **_: [1, 1]  # every word in two tokens
    check_refused(lambda: LocalJudge("a skull", model, processor, "tiny"), "single tokens")


def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    check_refused(lambda: open_local(str(tmp_path)), "model must")


def drawn(n: int, seed: int) -> dict[str, list[Verdict]]:
    draw = rng(seed, "verdicts")
    truth = draw.random(n) < 0.6
    made = {}
    for name, noise in (("a", 0.1), ("b", 0.2), ("c", 0.3)):
        flipped = truth ^ (draw.random(n) < noise)
        words = np.where(flipped, "yes", "no").astype(object)
        words[draw.random(n) < 0.1] = "unsure"
        made[name] = [Verdict(word) for word in words.tolist()]
    return made


def test_kappa_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import cohen_kappa_score

    found = agreement(drawn(200, 0))
    for (a, b), kappa in found.kappa.items():
        first, second = ([one.answer for one in drawn(200, 0)[name]] for name in (a, b))
        assert kappa.value == pytest.approx(cohen_kappa_score(first, second))
        assert found.observed[a, b].value == pytest.approx(np.mean(np.array(first) == np.array(second)))
        assert found.table[a, b].sum() == 200
        assert kappa.low is not None
        assert kappa.high is not None
        assert kappa.low < (kappa.value or 0) < kappa.high


def test_fleiss_of_the_published_example() -> None:
    # Fleiss (1971): 14 raters, 10 subjects, 5 categories, kappa 0.21
    counts = [
        *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
        *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
    ]
    assert fleiss(np.array(counts)) == pytest.approx(0.210, abs=5e-4)


def test_chance_gives_zero_and_equal_answers_one() -> None:
    assert cohen(np.array([[25, 25, 0], [25, 25, 0], [0, 0, 0]])) == pytest.approx(0.0)
    verdicts = drawn(50, 1)["a"]
    found = agreement({"x": verdicts, "y": verdicts})
    assert found.kappa["x", "y"].value == pytest.approx(1.0)
    assert found.fleiss.value == pytest.approx(1.0)
    assert "50 pictures" in found.text()


def test_intervals_cover() -> None:
    many = agreement(drawn(20_000, 5)).kappa["a", "b"].value
    hits = 0
    for seed in range(10, 30):
        kappa = agreement(drawn(100, seed)).kappa["a", "b"]
        assert kappa.low is not None
        assert kappa.high is not None
        hits += kappa.low <= (many or 0) <= kappa.high
    assert hits >= 16


def test_unsure_and_invalid_count_as_was_said() -> None:
    a = [Verdict("yes"), Verdict("unsure"), Verdict("no"), Verdict("invalid"), Verdict("yes")]
    b = [Verdict("yes"), Verdict("no"), Verdict("no"), Verdict("yes"), Verdict("no")]
    assert agreement({"a": a, "b": b}).observed["a", "b"].value == pytest.approx(2 / 4)
    assert agreement({"a": a, "b": b}, unsure="no").observed["a", "b"].value == pytest.approx(3 / 4)
    left = agreement({"a": a, "b": b}, unsure="leave out")
    assert left.pictures == 3
    assert left.observed["a", "b"].value == pytest.approx(2 / 3)


def test_nothing_to_compare_is_not_known() -> None:
    same = agreement({"a": [Verdict("yes")] * 4, "b": [Verdict("yes")] * 4})
    assert same.kappa["a", "b"].note == "every answer is the same"
    none = agreement({"a": [Verdict("invalid")], "b": [Verdict("yes")]})
    assert none.pictures == 0
    assert none.kappa["a", "b"].value is None
    assert none.fleiss.value is None


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: agreement({"a": [Verdict("yes")]}), "verdicts"),
        (lambda: agreement({"a": [Verdict("yes")], "b": []}), "verdicts"),
        (lambda: agreement({"a": [], "b": []}, unsure="yes"), "unsure"),
        (lambda: CascadeJudge(Fixed([]), Fixed([]), 0.6, 0.4), "low and high"),
        (lambda: contact_sheet([], "a skull", "x.html"), "pictures"),
        (lambda: contact_sheet(PICTURES, " ", "x.html"), "thing"),
        (lambda: PersonJudge("nowhere.csv"), "path"),
        (lambda: LocalJudge("", None, None, "x"), "thing"),
        (lambda: LocalJudge("a skull", None, None, "x", doubt=0.5), "doubt"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)
