"""Shapes are checked while the tests run, and only then: jaxtyping and beartype read every signature of the package."""

import os
from pathlib import Path

# One thread a test process: `make test` runs one process a core, and thread pools that wait for one another are slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

SOURCE = Path(__file__).parent / "src"
LEAVE_ALONE = "loops"  # numba compiles the functions of modules whose names end so; it cannot compile a wrapper
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"  # an int is good where a float is asked


def _modules() -> list[str]:
    files = sorted((SOURCE / "monoseme").rglob("*.py"))
    names = [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]
    packages = {name.removesuffix(".__init__") for name in names if name.endswith(".__init__")}
    # the hook takes a name and everything below it, so name the leaves only
    return [name for name in names if not name.endswith(LEAVE_ALONE) and name.removesuffix(".__init__") not in packages]


install_import_hook(_modules(), CHECKER)
