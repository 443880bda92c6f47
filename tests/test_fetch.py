"""Pictures from the web: what is taken, what is refused, and no way into the private network."""

import contextlib
import socket
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mai_graph import _fetch
from mai_graph.images import ImageLimits, load_image
from tests.pictures import LIMITS, PATIENT, PNG, data_url, refused


class Pages(BaseHTTPRequestHandler):
    """One small site: each path is one way to answer."""

    hosts: list[str]
    stop: threading.Event

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.hosts.append(self.headers["Host"])
        name, _, query = self.path.partition("?")
        with contextlib.suppress(ConnectionError):
            getattr(self, name.strip("/").replace("-", "_"))(query)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def picture(self, _: str) -> None:
        self.answer(PNG, Content_Type="image/png")

    def missing(self, _: str) -> None:
        self.answer(b"", 404)

    def page(self, _: str) -> None:
        self.answer(b"<!doctype html><title>Sign in</title>", Content_Type="image/png")

    def nothing(self, _: str) -> None:
        self.answer(b"")

    def no_content(self, _: str) -> None:
        self.answer(b"", 204)

    def zipped(self, _: str) -> None:
        self.answer(zlib.compress(bytes(10_000_000)), Content_Encoding="deflate")

    def endless(self, _: str) -> None:
        self.answer(b"")
        while not self.stop.is_set():
            self.wfile.write(bytes(65536))

    def short(self, _: str) -> None:
        self.answer(PNG, Content_Length=str(len(PNG) + 1))

    def dripping_body(self, _: str) -> None:
        self.answer(PNG[:8])
        while not self.stop.wait(0.05):
            self.wfile.write(b"\0")

    def dripping_header(self, _: str) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\n")
        while not self.stop.wait(0.05):
            self.wfile.write(b"X-More: 1\r\n")

    def silent(self, _: str) -> None:
        self.stop.wait()

    def garbage(self, _: str) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")

    def redirect(self, query: str) -> None:
        self.answer(b"", 302, Location=query)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    Pages.hosts, Pages.stop = [], threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    Pages.stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


PRIVATE = ImageLimits(allow_private_urls=True, **PATIENT)


@pytest.mark.parametrize("path", ["picture", "redirect?/picture", "picture?secret=1#part"])
def test_a_picture_is_fetched_over_http(port: int, path: str) -> None:
    assert load_image(f"http://127.0.0.1:{port}/{path}", limits=PRIVATE).data_url == data_url(PNG)


async def test_a_url_can_be_fetched_while_an_event_loop_runs(port: int) -> None:
    assert load_image(f" HTTP://127.0.0.1:{port}/picture", limits=PRIVATE).data_url == data_url(PNG)


@pytest.mark.parametrize(
    ("path", "limits", "problem"),
    [
        ("missing", {}, "answers 404 Not Found"),
        ("no-content", {}, "answers 204 No Content"),
        ("page", {}, "is a web page, not a picture"),
        ("nothing", {}, "is empty (0 bytes)"),
        ("zipped", {"max_bytes": 100_000}, "is unknown data"),
        ("endless", {"max_bytes": 100_000}, "answers more than 100,000 bytes"),
        ("short", {}, "can't be fetched"),
        ("garbage", {}, "can't be fetched"),
        ("dripping-body", {"timeout_s": 0.3}, "gives no whole picture within 0.3 s"),
        ("dripping-header", {"timeout_s": 0.3}, "gives no whole picture within 0.3 s"),
        ("silent", {"timeout_s": 0.3}, "gives no whole picture within 0.3 s"),
        ("redirect?/redirect?/redirect?/redirect?/redirect?/redirect?/picture", {}, "can't be fetched: Exceeded"),
        ("redirect?file:///etc/hosts", {}, "can't be fetched"),
    ],
)
def test_an_answer_that_is_no_picture_is_refused(port: int, path: str, limits: dict[str, float], problem: str) -> None:
    error = refused(f"http://127.0.0.1:{port}/{path}", ImageLimits(**{"allow_private_urls": True, **PATIENT, **limits}))
    assert problem in error.problem


@pytest.mark.parametrize(
    "url",
    ["http://", "http:", "https:///a.png", "http://[::1/a.png", "http://a:99999/", "http://x..y/", "http:/etc/hosts"],
)
@pytest.mark.parametrize("allow", [True, False])
def test_a_malformed_url_is_refused_and_never_taken_for_a_path(url: str, allow: bool) -> None:
    assert "can't be fetched" in refused(url, ImageLimits(allow_private_urls=allow)).problem


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "①②⑦.⓪.⓪.①",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00::1]",
        "[ff02::1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[2001:0:7f00:1::]",
        "example.com@127.0.0.1",
        "example.com:80@127.0.0.1",
        "127.0.0.1#@example.com",
        "127.0.0.1\\@example.com",
    ],
)
def test_a_url_into_the_private_network_is_refused_however_it_is_written(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: object) -> None:
        pytest.fail("a connection was tried")

    monkeypatch.setattr(_fetch.httpx.AsyncHTTPTransport, "handle_async_request", connect)
    error = refused(f"http://{host}/a.png")
    assert "not on the public internet" in error.problem or "can't be fetched" in error.problem


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"]
)
def test_public_addresses_are_public(address: str) -> None:
    assert _fetch._is_public(address)


@pytest.fixture
def only_127_0_0_1_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fetch, "_is_public", lambda address: address == "127.0.0.1")


@pytest.mark.usefixtures("only_127_0_0_1_is_public")
def test_each_hop_of_a_redirect_is_checked(port: int) -> None:
    start = f"http://127.0.0.1:{port}/redirect"
    assert load_image(f"{start}?/redirect?/picture", limits=LIMITS).data_url == data_url(PNG)
    error = refused(f"{start}?http://127.0.0.2:{port}/picture")
    assert "points to 127.0.0.2, which is not on the public internet" in error.problem


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """A name service under the test's control: what a name resolves to at its first look-up, its second, ..."""
    table: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *args: object, **options: object) -> list[tuple[object, ...]]:
        addresses = table[host].pop(0) if host in table else [host]
        return [entry for address in addresses for entry in real(address, port, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return table


@pytest.mark.usefixtures("only_127_0_0_1_is_public")
def test_the_address_that_was_checked_is_the_one_connected_to(port: int, names: dict[str, list[list[str]]]) -> None:
    names["rebind.test"] = [["127.0.0.1"], ["127.0.0.2"]]
    assert load_image(f"http://rebind.test:{port}/picture", limits=LIMITS).data_url == data_url(PNG)
    assert names["rebind.test"] == [["127.0.0.2"]]  # looked up once
    assert Pages.hosts[-1] == f"rebind.test:{port}"  # and the server still hears its name


@pytest.mark.usefixtures("only_127_0_0_1_is_public")
def test_one_private_address_among_public_ones_is_refused(port: int, names: dict[str, list[list[str]]]) -> None:
    names["mixed.test"] = [["127.0.0.1", "127.0.0.2"]]
    assert "not on the public internet" in refused(f"http://mixed.test:{port}/picture").problem


def test_the_next_address_is_tried_when_one_does_not_answer(
    port: int, names: dict[str, list[list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fetch, "_is_public", lambda address: True)
    names["two.test"] = [["127.0.0.2", "127.0.0.1"]]
    assert load_image(f"http://two.test:{port}/picture", limits=LIMITS).data_url == data_url(PNG)


@pytest.mark.parametrize("allow", [True, False])
def test_a_look_up_that_never_ends_does_not_hold_up_the_caller(allow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    release, ended = threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> None:
        release.wait(60)
        ended.set()
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    error = refused("http://slow.test/a.png", ImageLimits(timeout_s=0.1, allow_private_urls=allow))
    held_up = ended.is_set()
    release.set()
    assert "gives no whole picture within 0.1 s" in error.problem
    assert not held_up


@pytest.mark.parametrize("url", ["http://me:secret", "http://me:secret@host:secret/", "http://me:secret@[::1/"])
def test_secrets_in_a_malformed_url_stay_out_of_the_error(url: str) -> None:
    assert "secret" not in str(refused(url))


def test_secrets_in_a_url_stay_out_of_the_error(port: int) -> None:
    text = str(refused(f"http://me:pass@127.0.0.1:{port}/missing?token=abc", PRIVATE))
    assert f"http://127.0.0.1:{port}/missing answers 404" in text
    assert not any(secret in text for secret in ("me:", "pass", "token", "abc"))
