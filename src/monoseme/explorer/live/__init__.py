"""Pages that need a server: search and sort, a block from within, your own picture or text, two runs side by side.

Reading order: `schema`, `table`, `certified`, `server`, `page`, `block`. What needs other rooms comes from above, as
functions.
"""

from monoseme.explorer.live.schema import Fired, Number, Shape, Tried, Walk, Way, Waypoint
from monoseme.explorer.live.server import LiveRun, live_app, serve

__all__ = ["Fired", "LiveRun", "Number", "Shape", "Tried", "Walk", "Way", "Waypoint", "live_app", "serve"]
