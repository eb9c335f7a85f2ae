"""Shapes are checked while the tests run, and only then: jaxtyping and beartype read every signature of the package."""

from pathlib import Path

from jaxtyping import install_import_hook

SOURCE = Path(__file__).parent / "src"
LEAVE_ALONE = {"monoseme.core.kernels.loops"}  # numba compiles these functions; it cannot compile a wrapper
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"  # an int is good where a float is asked


def _modules() -> list[str]:
    files = sorted((SOURCE / "monoseme").rglob("*.py"))
    names = [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]
    packages = {name.removesuffix(".__init__") for name in names if name.endswith(".__init__")}
    # the hook takes a name and everything below it, so name the leaves only
    return [name for name in names if name not in LEAVE_ALONE and name.removesuffix(".__init__") not in packages]


install_import_hook(_modules(), CHECKER)
