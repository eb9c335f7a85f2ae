"""What the page of an audit shows: groups of numbers, what is not known and why, and one card a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from monoseme.api.describing import describe
from monoseme.api.interacting import with_gradients
from monoseme.api.measuring import Arm
from monoseme.core.cards import BlockCard
from monoseme.core.outcome import Outcome, plural, unknown
from monoseme.records import Comparison, OutcomeGroup, RunRecord
from monoseme.store import ActivationStore

__all__ = ["audit_record"]

FIDELITY = ("fvu", "l0", "active_dims", "dead_share")
# of these, whatever both arms know stands beside the control
BESIDE = (*FIDELITY, "ce_recovered", "agreement", "kl_recovered", "output_recovered", "stability", "chance_stability")
NOT_BUILT = (
    (
        "certificate",
        "1",
        "not computed: whether a best dictionary must hold a block is not checked yet; no block is proved real",
    ),
    ("nameability", "1", "not computed: no names are looked for; not built yet"),
    ("steering", "1", "not computed: not built yet; splicing says what all blocks do together"),
    ("description_length", "bits/row", "not computed: not built yet"),
    ("probe", "1", "not computed: no probe is fitted; whether blocks predict labels was not asked"),
)
FEW = 5  # documents or pictures below which a caveat says so
NAMED = 3  # skipped files named on the page


def audit_record(arm: Arm, control: Arm | None = None, title: str = "") -> RunRecord:
    """Gather the page of an audit; `control` is the same made of random weights."""
    record = describe(arm.featurizer, arm.store, arm.evaluation, run=arm.run, title=title)
    return replace(
        record,
        kind="audit",
        title=title or f"Audit of {arm.store.manifest['model']['name']} at {arm.store.manifest['hook']}",
        outcomes=tuple(_groups(arm, control)),
        comparisons=tuple(_tables(arm, control)),
        cards=tuple(_with_own(card, arm) for card in record.cards),
        notes=(*record.notes, *_few(arm.store), *_skipped(arm.store.manifest)),
    )


def _groups(arm: Arm, control: Arm | None) -> Iterator[OutcomeGroup]:
    fidelity = tuple(arm.evaluation[name] for name in FIDELITY)
    lost = tuple(o for o in arm.evaluation.outcomes if o.name not in FIDELITY)
    yield OutcomeGroup(
        "Fidelity: how much of the activations comes back", fidelity, "On held-out samples that no step of a fit saw."
    )
    yield OutcomeGroup(
        "What the model loses when reconstructions are put back",
        lost or (unknown("output_recovered", "1", "not computed: no sample was to be spliced"),),
        "Held-out samples are run three times: as they are, with reconstructions at the hook, and with the mean of the "
        "training rows there. That baseline is the training mean; FVU's, above, is the mean of the held-out rows.",
    )
    yield OutcomeGroup(
        "Stability: does another seed find the same parts",
        arm.stability,
        "A second featurizer was fitted to the same batches from other starting atoms. What the data does not decide "
        "differs between the two. Compare with chance stability, and with random weights (--control), which exceed "
        "chance as well. Two seeds say nothing of a third. Every card has its own block's stability.",
    )
    yield OutcomeGroup(
        "What the network downstream does with the parts",
        arm.downstream,
        "Energy of the average gradient outer product at the hook that different blocks share, in their own basis; to "
        "be read beside the same dictionary turned at random. Every card has its block's sensitivity: the mean squared "
        "change of the outputs along it.",
    )
    yield OutcomeGroup("Tokens: kept, dropped, skipped", tuple(_tokens(arm.store.manifest)), _policy(arm))
    yield OutcomeGroup("Not known, and why", tuple(_unknown(control)))


def _unknown(control: Arm | None) -> Iterator[Outcome]:
    if control is None:
        yield unknown("control", "1", "not computed: ask for a control (--control) to see the same on random weights")
    for name, unit, why in NOT_BUILT:
        yield unknown(name, unit, why)


def _policy(arm: Arm) -> str:
    tokens = arm.store.manifest["tokens"]
    policy = tokens["policy"]
    said = ["Special tokens (CLS, registers, begin-of-document marks) are " + ("kept" if policy["special"] else "left")]
    if not policy["special"]:
        said[0] += " out"
    if arm.store.manifest["text"] is not None:
        said.append(f"documents are cut into windows of {policy['context']} tokens, and split by document")
    if tokens["norm"] is None:
        said.append("no row was dropped for its norm")
    return "; ".join(said) + "."


def _tokens(manifest: dict[str, Any]) -> Iterator[Outcome]:
    """Where all tokens and all files went."""
    tokens, text = manifest["tokens"], manifest["text"]
    by_split = ", ".join(f"{name} {count:,}" for name, count in manifest["rows"].items())
    yield Outcome("rows", float(sum(manifest["rows"].values())), "rows", note=f"tokens kept: {by_split}")
    for name, key, why in (
        ("special_tokens", "special", "dropped: they stand for no content"),
        ("outside_positions", "outside", "dropped: at positions that were not asked for"),
        ("high_norm", "high_norm", "dropped: their norm was above the limit"),
    ):
        count = sum(tokens[key].values())
        seen = sum(tokens["seen"].values())
        if count or key == "special":
            yield Outcome(name, float(count), "tokens", note=f"{why}; of {seen:,} tokens seen")
    skipped = manifest["skipped"]["count"]
    yield Outcome("skipped_files", float(skipped), "files", note="could not be read" if skipped else "none was broken")
    if text is not None:
        over = f"of {text['documents']:,}; the others gave {text['windows']:,} windows"
        yield Outcome("empty_documents", float(text["empty"]), "documents", note=over)


def _few(store: ActivationStore) -> Iterator[str]:
    """A caveat when the held-out samples come from next to nothing: windows of one document are not independent."""
    groups = len({store.sample(id).group for id in store.samples("test")})
    if groups < FEW:
        units = plural(groups, "documents" if store.manifest["text"] is not None else "groups of samples")
        alone = "it" if groups == 1 else "those"
        yield f"All held-out samples come from {groups} {units}: the numbers speak of {alone} alone."


def _skipped(manifest: dict[str, Any]) -> Iterator[str]:
    skipped = manifest["skipped"]
    if skipped["count"]:
        first = "; ".join(f"{name} ({why})" for name, why in skipped["first"][:NAMED])
        files = plural(skipped["count"], "files")
        left = "was" if skipped["count"] == 1 else "were"
        yield f"{skipped['count']:,} {files} could not be read and {left} left out: {first}."


def _tables(arm: Arm, control: Arm | None) -> Iterator[Comparison]:
    names = [name for name in FIDELITY if name in arm.second]
    rows = [
        (said, *(numbers[name] for name in names))
        for said, numbers in (("first (shown here)", arm.evaluation), ("second", arm.second))
    ]
    note = "The same settings and the same batches; only the starting atoms differ."
    yield Comparison("Both seeds", ("seed", *names), tuple(rows), note)
    if control is None:
        return
    arms = [{o.name: o for o in (*a.evaluation.outcomes, *a.stability)} for a in (arm, control)]
    names = [name for name in BESIDE if any(name in numbers for numbers in arms)]
    weights = [a.store.manifest["model"]["weights"] for a in (arm, control)]
    rows = [
        (said, *(numbers.get(name) or unknown(name, "1", "not computed") for name in names))
        for said, numbers in zip(weights, arms, strict=True)
    ]
    note = (
        "The same audit, with the same settings, of random weights. FVU across different activations says how "
        "compressible they are, not whether parts mean something: a control may well have the lower one."
    )
    yield Comparison("Beside random weights", ("weights", *names), tuple(rows), note)


def _with_own(card: BlockCard, arm: Arm) -> BlockCard:
    """A card with its block's stability in the third place, the last that the gallery has room for; and gradients."""
    card = replace(card, outcomes=(*card.outcomes[:2], arm.agreement[card.block], *card.outcomes[2:]))
    return with_gradients(card, arm.by_block[card.block]) if arm.by_block else card
