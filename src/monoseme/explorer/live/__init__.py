"""Pages that need a server: search and sort, try your own picture or text, two runs side by side.

Reading order: `schema`, `table`, `server`, `page`. The model behind "try it" comes from above, as a function.
"""

from monoseme.explorer.live.schema import Fired, Number, Tried
from monoseme.explorer.live.server import LiveRun, live_app, serve

__all__ = ["Fired", "LiveRun", "Number", "Tried", "live_app", "serve"]
