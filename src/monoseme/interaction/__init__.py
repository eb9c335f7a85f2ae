"""How the parts of a network share a fixed budget: average gradient outer products, energies, shapes."""
