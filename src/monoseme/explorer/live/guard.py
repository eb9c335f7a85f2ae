"""What every request must be, and what every answer carries, so that no other page can read or use this server."""

from __future__ import annotations

from typing import Any

__all__ = ["CSP", "HEADERS", "Guard"]

CSP = (
    "default-src 'none'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # block pages load their data as scripts, and any page may include a script from anywhere: these forbid it
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Guard:
    """Middleware: requests to this address by its own name, from its own pages or a person; headers on every answer.

    Browsers send ``Origin`` with what may change something, and ``Sec-Fetch-Site`` with everything. A link from
    elsewhere may be followed (it shows the page to the person who clicked); anything else from elsewhere is refused.

    Parameters
    ----------
    app
        What is guarded.
    hosts
        Names under which it may be asked for, without port: a page elsewhere can have its own name point here.
    """

    def __init__(self, app: Any, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse, or hand on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket: there are none
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                # pages of a run bring their own, stricter policy in a meta tag: both hold
                message["headers"] = [
                    *message["headers"],
                    *((k.lower().encode(), v.encode()) for k, v in HEADERS.items()),
                ]
            await send(message)

        status, why = self._refused(scope)
        if status:
            body = why.encode()
            kind = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
            await guarded({"type": "http.response.start", "status": status, "headers": kind})
            await guarded({"type": "http.response.body", "body": body})
            return
        await self.app(scope, receive, guarded)

    def _refused(self, scope: Any) -> tuple[int, str]:
        """Status and reason, or 0."""
        said: dict[str, list[str]] = {}
        for key, value in scope["headers"]:
            said.setdefault(key.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = said.get("host", [])
        if len(host) != 1 or host[0].partition(":")[0] not in self.hosts:
            return 400, "another host"
        if any(origin != f"http://{host[0]}" for origin in said.get("origin", [])):
            return 403, "another origin"
        own = {*said.get("sec-fetch-site", [])} <= {"same-origin", "none"}
        followed = scope["method"] in ("GET", "HEAD") and said.get("sec-fetch-mode") == ["navigate"]
        if not own and not (followed and said.get("sec-fetch-dest") == ["document"]):
            return 403, "another site"
        return 0, ""
