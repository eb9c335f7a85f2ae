"""Rows on disk. Reading order: `sources`, `pictures`, `pasting`, `plan`, `streams`, `harvesting`, `rows`, `store`."""

from monoseme.store.harvesting import Progress, harvest
from monoseme.store.pasting import Composites, composites, demo_pictures
from monoseme.store.pictures import PictureFolder, WheelPictures, wheel_pictures
from monoseme.store.plan import Recipe, predict_size
from monoseme.store.sources import Entry, Sample, Source, as_source, assign_splits
from monoseme.store.store import ActivationStore, StoredSample

__all__ = [
    "ActivationStore",
    "Composites",
    "Entry",
    "PictureFolder",
    "Progress",
    "Recipe",
    "Sample",
    "Source",
    "StoredSample",
    "WheelPictures",
    "as_source",
    "assign_splits",
    "composites",
    "demo_pictures",
    "harvest",
    "predict_size",
    "wheel_pictures",
]
