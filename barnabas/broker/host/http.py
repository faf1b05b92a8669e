"""The little HTTP that looking in needs: a bounded request head in, one answer out, then the connection ends.

    GET /         what there is
    GET /health   200 once the broker serves, 503 while it recovers or stops
    GET /metrics  Prometheus text
    GET /state    the core's snapshot and the connections, as JSON, in pages (?limit=500&after=0)

A web page anywhere can make a browser ask here, so that nothing is told to one: names other than this broker's are
refused (421; a page that has its own name point here, "DNS rebinding", asks with that name), foreign origins too (403),
and no header lets a page read an answer. A request of HTTP/1.0 without Host is answered: no browser sends one.

An answer is a series of pieces, made one at a time. Nothing here runs unless somebody asks.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 16 * 1024
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"

Pieces = Iterator[bytes]


class Answer(NamedTuple):
    """Status, content type, and the text: whole, or in pieces of which empty ones are steps of work."""

    status: int
    content_type: str
    body: str | Iterator[str]


Page = Callable[[Mapping[str, str]], Answer]
"""Makes a page from what follows the `?`."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_HEADERS: Final = (
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Connection: close\r\n\r\n"
)


def answer(
    head: bytes,
    pages: Mapping[str, Page],
    hosts: Collection[str] | None = None,
    unknown: Callable[[str], None] = lambda name: None,
) -> Pieces | None:
    """The answer to what was received so far, or None while the request's head is not whole.

    `hosts` are the names this broker goes by, beside addresses and localhost; None lets every name pass. `unknown`
    hears of each other one that somebody asked with.
    """
    end = head.find(b"\r\n\r\n")
    if end < 0:
        end = head.find(b"\n\n")
    if end < 0:
        if len(head) > HEAD_BYTES_MAX:
            return _message(Answer(431, TEXT, f"The request's head is longer than {HEAD_BYTES_MAX} bytes.\n"))
        return None
    lines = head[:end].split(b"\n")
    words = lines[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/"):
        return _message(Answer(400, TEXT, "Write a request such as: GET /health HTTP/1.1\n"))
    path, _, query = words[1].decode("latin-1").partition("?")
    refusal = None if hosts is None else _stranger(words[2], lines[1:], hosts, unknown)
    if refusal is not None:
        return _message(refusal)
    if words[0] not in (b"GET", b"HEAD"):
        return _message(Answer(405, TEXT, "Only GET and HEAD are served here.\n"), "Allow: GET, HEAD\r\n")
    page = pages.get(path)
    if page is None:
        return _message(Answer(404, TEXT, f"There is no such page here; there are {', '.join(pages)}\n"))
    fields = (field.partition("=") for field in query.split("&") if field)
    return _made(page, {name: value for name, _, value in fields}, with_body=words[0] == b"GET")


def _stranger(
    version: bytes, lines: list[bytes], hosts: Collection[str], unknown: Callable[[str], None]
) -> Answer | None:
    """The refusal of a request that names another host, or that a page of another origin makes."""
    headers: dict[bytes, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers.setdefault(name.strip().lower(), []).append(value.strip().decode("latin-1"))
    named = headers.get(b"host", [])
    if len(named) > 1 or (not named and version != b"HTTP/1.0"):
        return Answer(400, TEXT, "Send one Host header.\n")
    if named and not is_known(named[0], hosts):
        unknown(_name(named[0]))
        return Answer(
            421, TEXT, "This broker does not go by that name; add it to barnabas.http.hosts, or ask by an address.\n"
        )
    for origin in headers.get(b"origin", []):
        if not is_known(origin.partition("://")[2], hosts):
            return Answer(403, TEXT, "Pages of other origins are not answered.\n")
    return None


def is_known(authority: str, hosts: Collection[str]) -> bool:
    """Whether a Host header names an address, this machine's loopback, or one of `hosts` ("*": anything)."""
    name = _name(authority)
    if name == "localhost" or name.endswith(".localhost") or name in hosts or "*" in hosts:
        return True
    return _is_address(socket.AF_INET, name) or (authority.startswith("[") and _is_address(socket.AF_INET6, name))


def _name(authority: str) -> str:
    """The host of `host:port`, in small letters and without brackets or a last dot."""
    name = authority.partition("]")[0][1:] if authority.startswith("[") else authority.partition(":")[0]
    return name.lower().removesuffix(".")


def names(authorities: Iterable[str]) -> frozenset[str]:
    """The names to compare with; a port that was written with one makes no difference. Addresses need no name."""
    return frozenset(filter(None, (_name(one) for one in authorities if one.startswith("[") or one.count(":") < 2)))


def _is_address(family: int, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    return True


def _made(page: Page, fields: Mapping[str, str], *, with_body: bool) -> Pieces:
    """A page, which is made when its first piece is asked for: `/state` takes some 10 ms."""
    yield from _message(page(fields), with_body=with_body)


def _message(found: Answer, headers: str = "", *, with_body: bool = True) -> Pieces:
    """Head and body. What comes in pieces has no length told beforehand; it ends with the connection."""
    data = found.body.encode() if isinstance(found.body, str) else None
    length = "" if data is None else f"Content-Length: {len(data)}\r\n"
    head = (
        f"HTTP/1.1 {found.status} {_REASONS[found.status]}\r\n"
        f"Content-Type: {found.content_type}\r\n{length}{headers}{_HEADERS}"
    ).encode("latin-1")
    if not with_body:
        yield head
    elif data is not None:
        yield head + data
    else:
        yield head
        for piece in found.body:
            yield piece.encode()
