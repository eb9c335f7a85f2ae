"""Rows on disk, or at a URL.

Reading order: `sources`, `pictures`, `pasting`, `texts`, `prompts`, `brown_corpus`, `data`; `policy`, `recipe`,
`windows`, `layout`, `plan`, `planning`; `batches`, `dealing`, `streams`, `sealed`, `finishing`, `harvesting`; `rows`,
`heldtext`, `remote`, `store`.
"""

from monoseme.store.brown_corpus import brown
from monoseme.store.data import as_source
from monoseme.store.dealing import Progress
from monoseme.store.harvesting import harvest
from monoseme.store.heldtext import HeldWindow
from monoseme.store.pasting import Composites, composites, demo_pictures
from monoseme.store.pictures import PictureFolder, WheelPictures, wheel_pictures
from monoseme.store.planning import predict_size
from monoseme.store.policy import TokenPolicy
from monoseme.store.prompts import Prompts
from monoseme.store.recipe import Recipe
from monoseme.store.sources import Entry, Sample, Source, assign_splits
from monoseme.store.store import ActivationStore, StoredSample
from monoseme.store.texts import Document, TextFolder, Texts, python_topics

__all__ = [
    "ActivationStore",
    "Composites",
    "Document",
    "Entry",
    "HeldWindow",
    "PictureFolder",
    "Progress",
    "Prompts",
    "Recipe",
    "Sample",
    "Source",
    "StoredSample",
    "TextFolder",
    "Texts",
    "TokenPolicy",
    "WheelPictures",
    "as_source",
    "assign_splits",
    "brown",
    "composites",
    "demo_pictures",
    "harvest",
    "predict_size",
    "python_topics",
    "wheel_pictures",
]
