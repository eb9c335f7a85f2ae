"""What the certificate page calls its verdicts, numbers and columns, and what it says of them."""

from __future__ import annotations

__all__ = ["ABOUT", "CALLED", "GLOSSARY", "HEADS", "MEANING", "ORDERS", "VERDICT_WORDS", "WORDS"]

# verdict, word, sign: never colour alone
VERDICT_WORDS = (("unstable", "unstable", "✗"), ("stable", "stable", "✓"), ("unknown", "not known", "?"))
# numbers and conditions by name: what to call them, in the order to show them
CALLED = {
    "removable": "guaranteed removable share of the loss",
    "gap": "gap to infinite width",
    "wide_bound": "least loss at any width",
    "loss": "loss",
    "reconstruction": "reconstruction error",
    "l0": "active features a row",
    "rays": "narrowest dictionary at that least loss",
    "dead_share": "features never active",
    "k1_active": "K1, codes that are on",
    "k1_active_worst": "K1, the worst code that is on",
    "k1_inactive": "K1, the worst code that is off",
    "k1_violations": "K1, codes that would pay if on",
    "k2": "K2, atoms",
    "k2_tangent": "K2, atoms that would turn",
    "k2_worst": "K2, the worst atom",
    "k3": "K3, bias",
    "longest_residual": "longest residual",
    "loss_identity": "loss that K1 does not explain",
    "code_gap": "loss that other codes could win",
    "implied_lam": "λ that the codes behave like",
}
ABOUT = {
    "rows": "The verdicts hold for exactly the rows measured.",
    "population": "The verdicts are about the population of rows: each had to pass a noise floor and held-out rows.",
}
MEANING = {
    "unstable": {
        "rows": "a change is known that leaves every reconstruction as it is and lowers the loss",
        "population": "a change is known that leaves every reconstruction as it is and lowers the loss, here and on "
        "held-out rows",
    },
    "stable": {
        "rows": "proved: no such change of the feature lowers the loss of these codes, to first order",
        "population": "no such change lowers the loss of these codes, to first order, beyond what a sample of this "
        "size can tell",
    },
    "unknown": {"rows": "neither could be proved", "population": "neither could be proved"},
}
ORDERS = (
    ("removable_loss", "removable loss"), ("feature", "feature"), ("verdict", "verdict"),
    ("violation_lower", "violation D"), ("strain", "strain"), ("partners", "number of partners"),
    ("density", "density"), ("antipode_gain", "antipode gain"), ("split_gain", "split gain"),
)  # fmt: skip
HEADS = (
    ("feature", "Feature"), ("verdict", "Verdict"), ("removable_loss", "Removable loss"),
    ("violation_lower", "Violation D"), ("strain", "Strain κ"), ("partners", "Partners"), ("density", "Density"),
    ("antipode_gain", "Antipode gain"), ("split_gain", "Split gain"),
)  # fmt: skip
WORDS = ("feature", "verdict", "partners")  # columns that are no numbers
GLOSSARY = (
    ("Verdict", "Unstable: an explicit change of atoms and codes keeps every reconstruction and lowers the loss. "
     "Stable: an explicit proof that no such change exists; about the population, none beyond the noise of the "
     "sample. Not known: neither was found; it is never a guess."),
    ("Removable loss", "λ(2eγ − e²S) of that change: the loss falls by at least this much. Units of ‖x‖², lower is "
     "better. Amounts of different features may overlap; do not add them up."),
    ("Violation D", "Distance to the hull (with a fixed bias: the cone) of the condition, from below and above. "
     "0 is what an optimum has. D² has the units of the code."),
    ("Strain κ", "At least so many λ below zero the residual must reach on some row where the feature is off, and "
     "beside which feature. 1 is no strain, larger is worse: above 1 + the longest residual (in λ), no optimum with "
     "such residuals holds the feature as it is. ∞ is a strict hierarchy: one is never on without the other."),
    ("Partners", "Features that the change moves, largest share first: who absorbs whom."),
    ("Density", "Share of rows on which the feature is active; 0 is dead."),
    ("Antipode gain", "Loss that adding the opposite atom removes at least. Units of ‖x‖²."),
    ("Split gain", "Loss that two rotated copies of the atom remove at least. Units of ‖x‖²."),
)  # fmt: skip
