"""The same conditions for blocks of several directions with signed codes (group lasso).

Reading order: `frames`; `conditions`, `resolve`; `pairs`, `moves`; `gains`, `sphere`; `certify`.
"""

from monoseme.optimality.blocks.certify import BlockCertificates as BlockCertificates
from monoseme.optimality.blocks.certify import certify_blocks as certify_blocks
from monoseme.optimality.blocks.certify import move_of as move_of
from monoseme.optimality.blocks.frames import Blocks as Blocks
from monoseme.optimality.blocks.frames import blocks as blocks
from monoseme.optimality.blocks.moves import Move as Move
from monoseme.optimality.blocks.moves import apply_move as apply_move
from monoseme.optimality.blocks.moves import promise as promise
from monoseme.optimality.blocks.resolve import resolve as resolve
