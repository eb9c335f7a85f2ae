"""Networks whose parts have names: pattern-producing networks, what a changed weight does to a picture, and pruning."""
