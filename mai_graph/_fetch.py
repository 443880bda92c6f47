"""Fetching a picture from the web without opening a way into the private network (server-side request forgery).

Who gives the URLs need not be who runs the graph. So a host may only resolve to public addresses, the connection goes
to the very address that was checked (a second look-up could give another one: DNS rebinding), and both hold for each
hop of a redirect.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import httpx

from mai_graph.errors import InputError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: the last 32 bits are the IPv4 address
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # RFC 4291: what IANA gives out of IPv6


def fetch(url: str, *, field: str, max_bytes: int, timeout_s: float, allow_private: bool) -> bytes:
    """Get what an http(s) URL answers.

    Args:
        url: The address; its user name, password and query stay out of errors.
        field: Names the value in errors, e.g. ``images[0]``.
        max_bytes: Longest body taken; a longer one is dropped while it arrives.
        timeout_s: Seconds for everything together: look-up, redirects, headers and body.
        allow_private: Whether private, loopback and link-local addresses may be reached. If so the machine's proxy
            settings count too; otherwise they don't, since a proxy would look the host up by itself.

    Raises:
        InputError: For an address that isn't public, and for any answer but a 200 with a body in time.
    """
    # A loop of its own in a thread of its own: asyncio can cancel any wait, and a caller may be inside a running loop.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_run, _get(url, field, max_bytes, timeout_s, allow_private)).result()


def _run(get: Coroutine[None, None, bytes]) -> bytes:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(get)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()  # doesn't wait for a look-up that was given up, as asyncio.run would


async def _get(url: str, field: str, max_bytes: int, timeout_s: float, allow_private: bool) -> bytes:
    def problem(text: str, remedy: str = "Check the address, or download the picture and give its path.") -> InputError:
        return InputError(field, f"{shown} {text}", remedy)

    shown = "the URL"
    client = httpx.AsyncClient(
        transport=None if allow_private else _PublicTransport(verify=_certificates()),
        verify=_certificates(),
        headers={"User-Agent": "mai-graph", "Accept": "image/*", "Accept-Encoding": "identity"},
        timeout=timeout_s,
        follow_redirects=True,
        max_redirects=5,
    )
    try:
        shown = _without_secrets(url)
        async with asyncio.timeout(timeout_s), client, client.stream("GET", url) as response:
            if response.status_code != httpx.codes.OK:
                raise problem(f"answers {response.status_code} {response.reason_phrase}".rstrip())
            body = bytearray()
            async for chunk in response.aiter_raw():  # as sent: a compressed body can't grow here
                body += chunk
                if len(body) > max_bytes:
                    raise problem(f"answers more than {max_bytes:,} bytes", "Give a smaller one, or raise max_bytes.")
            return bytes(body)
    except (TimeoutError, httpx.TimeoutException):
        raise problem(f"gives no whole picture within {timeout_s:g} s") from None
    except _NotPublicError as error:
        remedy = "Give a public address or the picture itself; set allow_private_urls only if you trust who asks."
        raise problem(f"points to {error}, which is not on the public internet", remedy) from None
    except httpx.InvalidURL:  # its reason may quote the password
        raise problem("can't be fetched: it isn't a valid address") from None
    except (httpx.HTTPError, OSError, UnicodeError) as error:
        raise problem(f"can't be fetched: {str(error) or type(error).__name__}") from error


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()  # reads all of the trusted authorities: once is enough


def _without_secrets(url: str) -> str:
    address = httpx.URL(url)
    text = str(address.copy_with(userinfo=b"", query=None, fragment=None))
    return text if len(text) <= 100 else f"{text[:99]}…"


class _NotPublicError(Exception):
    """A host that isn't on the public internet."""


class _PublicTransport(httpx.AsyncHTTPTransport):
    """Connects each request, so each redirect too, to an address found public, under the host's own name."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii")
        addresses = await _public_addresses(host, request.url.port)
        timeout = request.extensions["timeout"]
        timeout = {**timeout, "connect": timeout["connect"] / len(addresses)}  # a dead one leaves time for the next
        failure: httpx.TransportError | None = None
        for address in addresses:
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # Host is already in there
                # The certificate is checked for the name.
                extensions={**request.extensions, "timeout": timeout, "sni_hostname": host},
            )
            try:
                return await super().handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure


async def _public_addresses(host: str, port: int | None) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    if not all(map(_is_public, addresses)):
        raise _NotPublicError(host)
    return addresses


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        carried = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            carried = ipaddress.IPv4Address(ip.packed[-4:])
        if carried is None:
            return ip in _GLOBAL_UNICAST and ip.is_global
        ip = carried
    return ip.is_global and not ip.is_multicast
