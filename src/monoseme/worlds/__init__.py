"""Synthetic data whose parts are known."""

from monoseme.worlds.planted import Factor as Factor
from monoseme.worlds.planted import manifolds as manifolds
from monoseme.worlds.shapes import CURVED as CURVED
from monoseme.worlds.shapes import Circle as Circle
from monoseme.worlds.shapes import Disk as Disk
from monoseme.worlds.shapes import Helix as Helix
from monoseme.worlds.shapes import Manifold as Manifold
from monoseme.worlds.shapes import Moebius as Moebius
from monoseme.worlds.shapes import Segment as Segment
from monoseme.worlds.shapes import Sphere as Sphere
from monoseme.worlds.shapes import SwissRoll as SwissRoll
from monoseme.worlds.shapes import Torus as Torus
from monoseme.worlds.world import Part as Part
from monoseme.worlds.world import Sample as Sample
from monoseme.worlds.world import World as World
