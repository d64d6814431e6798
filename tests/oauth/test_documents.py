"""Client ID Metadata Documents, and what a server must not be made to fetch."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
import trio
from cli.web import make_certificate
from hosts.process import MCPKIT, Process, serving_http, started
from oauth.browser import Form, Program, Visitor, call, origin_of
from oauth.library import Library, library
from support import SECONDS

from mcpkit.auth.fetch import MAX_BYTES, CannotFetch, Fetcher

SCRIPT = Path(__file__).parent / "scripts" / "documents.py"
_networks = count(2)


@pytest.fixture(scope="module")
def books() -> Iterator[Library]:
    with library() as books:
        yield books


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Process, str]]:
    """A server that may ask this machine for documents."""
    with serving_http(SCRIPT) as (process, url):
        yield process, origin_of(url)
        assert "Traceback" not in process.output


def ask(origin: str, client_id: str) -> httpx.Response:
    """Ask for authorization, each time from another network: fetching has a pace for each."""
    transport = httpx.HTTPTransport(local_address=f"127.0.1.{next(_networks)}")
    with httpx.Client(transport=transport, timeout=SECONDS) as client:
        return client.get(Program(origin, client_id, resource=None, scope=None).url())


def test_a_client_is_known_by_its_document(server: tuple[Process, str], books: Library) -> None:
    """MCP 2026-07-28: no registration. The page shows the host; the document is fetched once, with its name as Host."""
    _, origin = server
    client_id = books.add("/good.json")
    flow = Program(origin, client_id, scope=None)
    with Visitor() as visitor:
        page = visitor.open(flow.url())
        assert (
            f"A published program asks for access to {origin.partition('://')[2]}/mcp" in Form(page.text).text
        )
        assert f"Published by localhost:{books.port}" in Form(page.text).text
    tokens = flow.tokens()
    assert call(f"{origin}/mcp", tokens["access_token"]).status_code == 200
    assert flow.refresh(tokens["refresh_token"]).status_code == 200
    assert books.asked == [("/good.json", f"localhost:{books.port}")]


def test_the_metadata_offers_no_registration_when_there_is_none(server: tuple[Process, str]) -> None:
    """RFC 8414: what is advertised is there, and what is not is not."""
    _, origin = server
    metadata = httpx.get(f"{origin}/.well-known/oauth-authorization-server", trust_env=False).json()
    assert "registration_endpoint" not in metadata
    assert metadata["client_id_metadata_document_supported"] is True
    assert httpx.post(f"{origin}/register", json={}, trust_env=False).status_code == 404


def test_the_redirect_uris_of_a_document_are_held_to_as_well(
    server: tuple[Process, str], books: Library
) -> None:
    """The document says where codes go."""
    flow = Program(server[1], books.add("/held.json"), scope=None)
    answer = httpx.get(flow.url(redirect_uri="https://evil.example/"), trust_env=False)
    assert answer.status_code == 400
    assert "location" not in answer.headers


def test_a_document_is_one_only_where_it_says_so(server: tuple[Process, str], books: Library) -> None:
    """`client_id` must be the very URL: whoever can put a file somewhere is not whoever it names."""
    for number, wrong in enumerate(
        [books.url + "/other.json", None, 1, "", books.url.upper() + "/wrong.json"]
    ):
        url = books.add(f"/wrong{number}.json", client_id=wrong)
        answer = ask(server[1], url)
        assert answer.status_code == 400
        assert "another client_id" in answer.text


def test_documents_that_are_not_good_are_refused(server: tuple[Process, str], books: Library) -> None:
    """Each with its reason, and nothing of what came back."""
    good = books.pages
    url = books.add("/base.json", client_name="SECRET")
    body = good["/base.json"].body
    refused = {
        books.put("/missing.json", body, status=404): "status 404",
        books.put("/moved.json", b"", status=302, location=url): "status 302",
        books.put("/moved2.json", b"", status=307, location="http://169.254.169.254/"): "status 307",
        books.put("/html.json", body, content_type="text/html"): "not JSON",
        books.put("/garbage.json", b"{SECRET"): "not JSON",
        books.put("/deep.json", b"[" * 60_000): "not JSON",
        books.put("/list.json", b"[1]"): "another client_id",
        books.put("/large.json", b" " * (MAX_BYTES + 1)): "larger than",
        books.put("/packed.json", gzip.compress(b" " * 10**7), content_encoding="gzip"): "compressed",
        books.add("/secret.json", token_endpoint_auth_method="client_secret_post"): "secret",
        books.add("/evil.json", redirect_uris=["http://evil.example/"]): "Redirect URI 1",
        books.add("/none.json", redirect_uris=[]): "redirect URIs",
        books.url + "/": "not the URL of a document",
        books.url + "/a/../base.json": "not the URL of a document",
        books.url + "/base.json#fragment": "not the URL of a document",
        books.url.replace("localhost", "user@localhost") + "/base.json": "not the URL of a document",
        "ftp://localhost/base.json": "not an https URL",
        "http://example.com/base.json": "not an https URL",
        "https://": "not the URL of a document",
        ":": "not the URL of a document",
        "javascript:alert(1)": "not the URL of a document",
    }
    for client_id, reason in refused.items():
        answer = ask(server[1], client_id)
        assert answer.status_code == 400, client_id
        assert reason in answer.text, (client_id, Form(answer.text).text)
        assert "SECRET" not in answer.text
        assert "location" not in answer.headers
    assert books.count("/base.json") == 0  # no redirect was followed


def test_a_host_that_does_not_answer_is_not_waited_for(server: tuple[Process, str], books: Library) -> None:
    """Five seconds; meanwhile others are served."""
    url = books.put("/slow.json", b"", hold=True)
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(ask(server[1], url)))
    waiting.start()
    assert ask(server[1], books.add("/quick.json")).status_code == 200
    waiting.join(SECONDS)
    assert "did not answer within 5 s" in answers[0].text


def test_documents_are_fetched_at_a_limited_pace(server: tuple[Process, str], books: Library) -> None:
    """Or the server could be made to bother another one."""
    statuses = []
    with httpx.Client(trust_env=False) as client:
        while 429 not in statuses and len(statuses) < 300:  # 30, and one more each two seconds
            flow = Program(server[1], books.add(f"/many{len(statuses)}.json"), scope=None)
            statuses.append(client.get(flow.url()).status_code)
    first = statuses.index(429)
    assert first >= 20  # some have been fetched by other tests
    assert set(statuses[:first]) == {200}
    assert books.count(f"/many{first}.json") == 0


# -- SSRF ------------------------------------------------------------------------------------

TARGETS = [
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.1",
    "127.0.0.2",
    "2130706433",
    "0x7f.0.0.1",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "[ff02::1]",
    "169.254.169.254",
    "[::ffff:169.254.169.254]",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "ip6-localhost",
    socket.gethostname(),
]


@pytest.fixture(scope="module")
def trap() -> Iterator[socket.socket]:
    """Listens on all addresses of this machine, and is never to be reached."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        yield listening


@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize("host", TARGETS)
def test_nothing_inside_is_ever_fetched(origin: str, trap: socket.socket, host: str, scheme: str) -> None:
    """SSRF: no spelling of an address that is not public is connected to."""
    answer = ask(origin, f"{scheme}://{host}:{trap.getsockname()[1]}/client.json")
    assert answer.status_code == 400
    text = Form(answer.text).text
    assert any(
        why in text for why in ("not on the public internet", "no address", "not an https URL", "not the URL")
    )
    trap.setblocking(False)
    with pytest.raises(BlockingIOError):
        trap.accept()


@pytest.mark.parametrize(
    "host",
    ["127.0.0.2", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1", "127.1"],
)
def test_this_machine_is_allowed_by_its_usual_names_only(
    server: tuple[Process, str], trap: socket.socket, host: str
) -> None:
    """`allow_loopback_clients` opens localhost, 127.0.0.1 and [::1], for a test; nothing else."""
    for scheme in ("http", "https"):
        answer = ask(server[1], f"{scheme}://{host}:{trap.getsockname()[1]}/client.json")
        assert answer.status_code == 400
    trap.setblocking(False)
    with pytest.raises(BlockingIOError):
        trap.accept()


class Names(trio.abc.HostnameResolver):
    """A name server under an attacker's control: each answer in turn."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def getaddrinfo(  # type: ignore[override]
        self, host: bytes | None, port: object, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> object:
        self.asked += 1
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(str(port))))
            for address in self._answers.pop(0)
        ]

    async def getnameinfo(self, sockaddr: object, flags: int) -> object:  # type: ignore[override]
        raise AssertionError


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254"], ["1.1.1.1", "127.0.0.1"], ["10.0.0.1", "1.1.1.1"], []]
)
async def test_a_name_that_leads_inside_is_refused(addresses: list[str]) -> None:
    """One address that is not public is one too many."""
    trio.socket.set_custom_hostname_resolver(Names(addresses))
    with pytest.raises(CannotFetch, match="not on the public internet"):
        await Fetcher().json("https://rebind.example:443/client.json")


async def test_a_name_is_asked_for_once(books: Library) -> None:
    """DNS rebinding: the address that was checked is the one that is connected to, whatever the name says next."""
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    trio.socket.set_custom_hostname_resolver(names)
    url = books.add("/rebind.json")
    assert (await Fetcher(allow_loopback=True).json(url))["client_id"] == url
    assert names.asked == 1


# -- TLS -------------------------------------------------------------------------------------


def test_the_certificate_is_that_of_the_name(tmp_path: Path) -> None:
    """The connection goes to an address; what is checked is the name. An unknown issuer is refused."""
    folder = make_certificate(tmp_path)
    with library(folder) as books:
        client_id = books.add("/client.json")
        command = [*MCPKIT, str(SCRIPT)]
        for env, status in (({"SSL_CERT_FILE": str(folder / "cert.pem")}, 200), ({}, 400)):
            with started(command, **env) as process:
                origin = origin_of(process.expect(r"serving (http\S+)")[1])
                answer = ask(origin, client_id)
                assert answer.status_code == status, answer.text
    assert books.asked == [("/client.json", f"localhost:{books.port}")]
