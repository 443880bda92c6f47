"""Fetching a picture over http(s): bounded in size and time, never from inside the private network unless allowed."""

import ipaddress
import socket
import time

import httpx

from mai_graph.errors import InputError

_MAX_REDIRECTS = 5


def fetch(url: str, *, field: str, max_bytes: int, timeout_s: float, allow_private: bool) -> bytes:
    """Get the body of a URL.

    Each hop's host is resolved once, and the address that was checked is the one connected to: a name that resolves
    differently the second time (DNS rebinding) gains nothing.

    Args:
        url: An http or https URL.
        field: Named in errors.
        max_bytes: Most bytes of the body.
        timeout_s: Seconds for the whole fetch.
        allow_private: Whether addresses that aren't public may be connected to.

    Raises:
        InputError: When it can't be had.
    """
    deadline, hop = time.monotonic() + timeout_s, url
    # A proxy of the environment would resolve the name itself, after and apart from the check.
    with httpx.Client(timeout=timeout_s, trust_env=allow_private) as client:
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                parsed = httpx.URL(hop)
                if parsed.scheme not in ("http", "https") or not parsed.host:
                    raise InputError(field, f"{_shown(hop)} is no http(s) URL", "Use http or https.")
                address = parsed.host if allow_private else _public_address(parsed, field)
                request = client.build_request(
                    "GET",
                    parsed.copy_with(host=address),
                    headers={"Host": parsed.netloc.decode("ascii")},
                    extensions={"sni_hostname": parsed.host},  # TLS is verified against the name, not the address
                )
                response = client.send(request, stream=True)
                try:
                    if not response.has_redirect_location:
                        return _body(response, field, _shown(hop), max_bytes, deadline)
                    hop = str(parsed.join(response.headers["Location"]))
                finally:
                    response.close()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                why = str(error) or type(error).__name__
                remedy = "Check the URL, or download the picture first."
                raise InputError(field, f"{_shown(hop)} can't be fetched: {why}", remedy) from None
    raise InputError(field, f"{_shown(url)} redirects more than {_MAX_REDIRECTS} times", "Give the final URL.")


def _public_address(url: httpx.URL, field: str) -> str:
    try:
        found = socket.getaddrinfo(
            url.host, url.port or {"http": 80, "https": 443}[url.scheme], type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise InputError(field, f"host {url.host!r} can't be resolved: {error}", "Check the URL.") from None
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not _is_public(address):
            raise InputError(
                field,
                f"host {url.host!r} is {address}, an address inside a private network",
                "Pass the picture itself, or set allow_private_urls where the graph is made.",
            )
    return addresses[0]


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (inner := ip.ipv4_mapped or ip.sixtofour or _nat64(ip)):
        ip = inner
    return ip.is_global and not ip.is_multicast


def _nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in ipaddress.ip_network("64:ff9b::/96") else None


def _body(response: httpx.Response, field: str, shown: str, max_bytes: int, deadline: float) -> bytes:
    if not response.is_success:
        raise InputError(field, f"{shown} answers {response.status_code} {response.reason_phrase}", "Check the URL.")
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > max_bytes:
            raise InputError(field, f"{shown} is larger than {max_bytes:,} bytes", "Give a smaller picture.")
        if time.monotonic() > deadline:
            raise InputError(field, f"{shown} takes too long", "Download the picture first, and pass its path.")
    return bytes(body)


def _shown(url: str) -> str:
    """The URL without what may be secret in it: user, password, query."""
    try:
        parsed = httpx.URL(url)
        short = str(parsed.copy_with(username=None, password=None, query=None, fragment=None))
    except httpx.InvalidURL:
        short = url.partition("?")[0]
    return short if len(short) <= 120 else short[:117] + "..."
