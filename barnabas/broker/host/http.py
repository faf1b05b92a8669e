"""The little HTTP that looking in needs: a bounded request head in, one answer out, then the connection ends.

    GET /         what there is
    GET /health   200 once the broker serves, 503 while it recovers or stops
    GET /metrics  Prometheus text
    GET /state    the core's snapshot and the connections, as JSON

Nothing here runs unless somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

HEAD_BYTES_MAX: Final = 16 * 1024
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"

Page = Callable[[], tuple[int, str, str]]
"""Makes a page: status, content type, text."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def answer(head: bytes, pages: Mapping[str, Page]) -> bytes | None:
    """The answer to what was received so far, or None while the request's head is not whole."""
    end = head.find(b"\r\n\r\n")
    if end < 0:
        end = head.find(b"\n\n")
    if end < 0:
        if len(head) > HEAD_BYTES_MAX:
            return _message(431, TEXT, f"The request's head is longer than {HEAD_BYTES_MAX} bytes.\n")
        return None
    words = head[:end].split(b"\n", 1)[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/"):
        return _message(400, TEXT, "Write a request such as: GET /health HTTP/1.1\n")
    method, target = words[0], words[1].split(b"?", 1)[0].decode("latin-1")
    if method not in (b"GET", b"HEAD"):
        return _message(405, TEXT, "Only GET and HEAD are served here.\n", "Allow: GET, HEAD\r\n")
    page = pages.get(target)
    if page is None:
        return _message(404, TEXT, f"There is no {target} here; there are {', '.join(pages)}\n")
    status, content_type, body = page()
    return _message(status, content_type, body, with_body=method == b"GET")


def _message(status: int, content_type: str, body: str, headers: str = "", *, with_body: bool = True) -> bytes:
    data = body.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(data)}\r\n"
        "Cache-Control: no-store\r\n"
        f"{headers}Connection: close\r\n\r\n"
    ).encode("latin-1")
    return head + data if with_body else head
