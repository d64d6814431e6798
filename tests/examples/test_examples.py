"""The examples are served as real processes, and each of their features is used through the wire."""

from __future__ import annotations

import base64
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clients.peer import WatchedServer, watched
from support import REVISIONS, STATELESS, request

from mcpkit import App

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
OVER_HTTP = ("http_", "bearer", "jwt", "introspection", "client_credentials", "oauth")
STDIO = [script for script in SCRIPTS if not script.startswith(OVER_HTTP)]
ADDRESS = {"name": "A. Customer", "street": "Main Street 1", "city": "Oslo", "country": "NO"}


class Client:
    """A client of a served example, in one revision."""

    def __init__(self, server: WatchedServer, revision: str) -> None:
        self.server = server
        self.revision = revision
        self.greeting = server.start(revision)
        self._id = 0

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request, or its error."""
        self._id += 1
        reply = self.server.ask(self._id, method, params, revision=self.revision)
        return reply.get("result", reply.get("error"))

    def call(self, name: str, **arguments: Any) -> Any:
        """The result of a tool."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def value(self, name: str, **arguments: Any) -> Any:
        """The value that a tool returns, whichever shape the revision has for it."""
        result = self.call(name, **arguments)
        assert "isError" not in result, result
        value = result["structuredContent"]
        return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value

    def refusal(self, name: str, **arguments: Any) -> str:
        """What a tool says that cannot do it."""
        result = self.call(name, **arguments)
        assert result["isError"] is True
        return result["content"][0]["text"]

    def read(self, uri: str) -> Any:
        """The contents of a resource."""
        (contents,) = self.ask("resources/read", {"uri": uri})["contents"]
        return contents

    def complete(self, ref: dict[str, str], name: str, value: str, **known: str) -> list[str]:
        """The values that complete an argument."""
        params = {"ref": ref, "argument": {"name": name, "value": value}, "context": {"arguments": known}}
        return self.ask("completion/complete", params)["completion"]["values"]


@contextmanager
def serving(script: str, revision: str) -> Iterator[Client]:
    with watched(EXAMPLES / script) as server:
        yield Client(server, revision)


@pytest.fixture(scope="module")
def shop() -> Iterator[Client]:
    """The shop, for what changes nothing in it."""
    with serving("complete.py", STATELESS) as client:
        yield client


# -- All of them -------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_example_can_be_imported_and_declares_an_app(script: str) -> None:
    """An example is a module like any other: importing it serves nothing."""
    spec = importlib.util.spec_from_file_location(f"example_{script[:-3]}", EXAMPLES / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module.app, App)


@pytest.mark.parametrize("script", STDIO)
def test_every_example_serves_when_it_is_run_as_a_script(script: str) -> None:
    """DESIGN of the public face: `app.run()` serves on stdio until the client leaves, and exits with 0."""
    server = WatchedServer([sys.executable, str(EXAMPLES / script)])
    try:
        assert server.start("2025-11-25")["serverInfo"]["name"]
        server.close_input()
        assert server.wait() == 0
        assert server.errors == ""
    finally:
        server.end()


@pytest.mark.parametrize("script", STDIO)
def test_every_command_at_the_head_of_an_example_works(script: str) -> None:
    """What a newcomer copies first must not fail."""
    text = (EXAMPLES / script).read_text(encoding="utf-8")
    commands = [line.partition(":")[2].split() for line in text.splitlines()[:12] if ":  " in line]
    assert commands
    for words in (words for words in commands if words[1] != "run"):
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=EXAMPLES.parent, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout


# -- simple.py ---------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_store_keeps_a_value(revision: str) -> None:
    """The main job, in every revision: list, call, and an error that tells the model what is wrong."""
    with serving("simple.py", revision) as client:
        tools = client.ask("tools/list")["tools"]
        assert [tool["name"] for tool in tools] == ["remember", "recall"]
        assert client.refusal("recall", key="colour") == "Nothing is kept under colour."
        kept = client.call("remember", key="colour", value="grün")
        assert kept["content"] == [{"type": "text", "text": "colour is kept."}]
        assert client.call("recall", key="colour")["content"] == [{"type": "text", "text": "grün"}]


# -- complete.py -------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_customer_searches_fills_a_cart_and_checks_out(revision: str) -> None:
    """The whole story, in every revision; revisions without structured content have the same as text."""
    with serving("complete.py", revision) as client:
        texts = revision < "2025-06-18"
        found = client.call("search", query="shirt", max_price=5000)
        assert ("structuredContent" in found) is not texts
        assert found["content"][0]["text"].startswith('[{"sku":"SH-1","name":"Linen shirt"')
        client.call("add_to_cart", items=[{"sku": "SH-1", "quantity": 2}])
        client.call("add_to_cart", items=[{"sku": "MU-1"}], cart_id="cart-1")
        order = client.call("check_out", cart_id="cart-1", address=ADDRESS, shipping="express")
        assert '"total":12190' in order["content"][0]["text"]
        text = client.read("shop://orders/1")["text"]
        assert text == order["content"][0]["text"]


def test_the_tools_say_what_they_do(shop: Client) -> None:
    """Annotations, titles, enums, nested objects, lists, bounds and defaults are in the list."""
    tools = {tool["name"]: tool for tool in shop.ask("tools/list")["tools"]}
    assert list(tools) == [
        *("search", "add_to_cart", "empty_cart", "check_out", "follow_parcel", "show", "staff_restock"),
    ]
    assert tools["search"]["title"] == "Search products"
    assert tools["search"]["annotations"] == {"readOnlyHint": True}
    assert tools["empty_cart"]["annotations"] == {"destructiveHint": True, "idempotentHint": True}
    search = tools["search"]["inputSchema"]
    assert "required" not in search
    assert search["properties"]["category"] == {
        "type": "string",
        "enum": ["clothing", "kitchen", "garden"],
        "description": "Leave it out to search all of them.",
    }
    assert search["properties"]["max_price"] == {
        "type": "integer",
        "exclusiveMinimum": 0,
        "description": "In cents.",
    }
    check_out = tools["check_out"]["inputSchema"]
    assert check_out["required"] == ["cart_id", "address"]
    assert check_out["properties"]["shipping"] == {
        "type": "string",
        "enum": ["standard", "express", "drone"],
        "default": "standard",
    }
    assert check_out["properties"]["address"]["required"] == ["name", "street", "city", "country"]
    items = tools["add_to_cart"]["inputSchema"]["properties"]["items"]
    assert items["minItems"] == 1
    assert items["items"]["properties"]["quantity"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 99,
        "default": 1,
    }
    assert tools["search"]["outputSchema"]["type"] == "array"
    assert "outputSchema" not in tools["empty_cart"]


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("add_to_cart", {"items": [{"sku": "??"}]}, "There is no product '??': search for one first."),
        ("add_to_cart", {"items": [{"sku": "TE-1"}]}, "There are only 0 of TE-1 left."),
        (
            "check_out",
            {"cart_id": "no", "address": ADDRESS},
            "There is no cart 'no': call add_to_cart first.",
        ),
        ("follow_parcel", {"number": 99}, "There is no order 99."),
        (
            "check_out",
            {"cart_id": "cart-1", "address": {**ADDRESS, "country": "Norway"}, "shipping": "pigeon"},
            "Invalid arguments for tool 'check_out': `address.country`: expected string matching regex "
            "'^[A-Z]{2}$'; `shipping`: expected one of: standard, express, drone",
        ),
        (
            "add_to_cart",
            {"items": []},
            "Invalid arguments for tool 'add_to_cart': `items`: expected array of length >= 1",
        ),
    ],
)
def test_what_cannot_be_done_is_said_so_that_the_model_can_do_better(
    shop: Client, tool: str, arguments: dict[str, Any], text: str
) -> None:
    """TOOL-08, TOOL-09: results with isError."""
    assert shop.refusal(tool, **arguments) == text


def test_carts_are_emptied_and_shelves_filled() -> None:
    """A tool without a result has no content; a blueprint's tool has its prefix; state outlives a call."""
    with serving("complete.py", "2025-11-25") as client:
        client.value("add_to_cart", items=[{"sku": "RA-1"}])
        assert client.call("empty_cart", cart_id="cart-1") == {"content": []}
        assert client.refusal("check_out", cart_id="cart-1", address=ADDRESS) == "The cart is empty."
        assert client.value("staff_restock", sku="TE-1", quantity=5) == 5
        assert client.value("search", query="teapot")[0]["stock"] == 5


def test_checking_out_reports_progress_and_logs() -> None:
    """Progress goes to whoever sent a token; logs of the handshake era from level info on."""
    with serving("complete.py", "2025-11-25") as client:
        client.value("add_to_cart", items=[{"sku": "MU-1"}])
        arguments = {"cart_id": "cart-1", "address": ADDRESS}
        params = {"name": "check_out", "arguments": arguments, "_meta": {"progressToken": 0}}
        client.server.send(request("go", "tools/call", params))
        _, before = client.server.receive_until("go")
        progress = [m["params"] for m in before if m["method"] == "notifications/progress"]
        assert [(p["progressToken"], p["progress"], p["total"]) for p in progress] == [
            (0, 1, 3),
            (0, 2, 3),
            (0, 3, 3),
        ]
        assert [m["params"] for m in before if m["method"] == "notifications/message"] == [
            {"level": "info", "logger": "orders", "data": {"order": 1, "total": 1890}}
        ]


def test_a_parcel_is_followed_until_the_client_gives_up() -> None:
    """Cancellation: the handler's clean-up runs, no answer comes, and the server goes on."""
    with serving("complete.py", "2025-11-25") as client:
        client.value("add_to_cart", items=[{"sku": "MU-1"}])
        client.value("check_out", cart_id="cart-1", address=ADDRESS)
        params = {"name": "follow_parcel", "arguments": {"number": 1, "pace": 60}}
        client.server.send(request("long", "tools/call", params | {"_meta": {"progressToken": "p"}}))
        assert client.server.receive()["params"]["message"] == "On its way"
        assert client.refusal("follow_parcel", number=1) == "Order 1 is being followed already."
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "long"}}
        client.server.send({"jsonrpc": "2.0", **cancel})
        # The first may be answered with the cancellation; before the second is, the handler has its turn.
        for _ in range(2):
            assert client.ask("ping") == {}
        arrived = client.call("follow_parcel", number=1, pace=0)
        assert arrived["content"] == [{"type": "text", "text": "Order 1 has arrived."}]


def test_a_product_is_shown_with_text_photo_and_link(shop: Client) -> None:
    """Content blocks with annotations; the photo is a PNG."""
    text, image, link = shop.call("show", sku="SH-2")["content"]
    assert text == {
        "type": "text",
        "text": "Flannel shirt, 59.00",
        "annotations": {"audience": ["user"], "priority": 1.0},
    }
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG\r\n\x1a\n")
    assert link == {
        "type": "resource_link",
        "uri": "shop://products/SH-2",
        "name": "Flannel shirt",
        "mimeType": "application/json",
    }


def test_resources_are_listed_with_the_members_of_a_template(shop: Client) -> None:
    """Static ones, those that `list=` yields, and the templates."""
    resources = [resource["uri"] for resource in shop.ask("resources/list")["resources"]]
    skus = ("SH-1", "SH-2", "MU-1", "TE-1", "RA-1")
    assert resources == ["shop://about", "shop://logo", *(f"shop://products/{sku}" for sku in skus)]
    templates = shop.ask("resources/templates/list")["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == [
        "shop://products/{sku}",
        "shop://products/{sku}/photo",
        "shop://orders/{number}",
    ]


def test_resources_are_read_as_text_json_and_bytes(shop: Client) -> None:
    """Static, binary, template; the cache setting of the one that has its own."""
    about = shop.ask("resources/read", {"uri": "shop://about"})
    assert (about["ttlMs"], about["cacheScope"]) == (3_600_000, "public")
    assert about["contents"][0]["mimeType"] == "text/markdown"
    assert about["contents"][0]["text"].startswith("# Corner shop")
    logo = shop.read("shop://logo")
    assert logo["mimeType"] == "image/png"
    assert base64.b64decode(logo["blob"]).startswith(b"\x89PNG\r\n\x1a\n")
    product = shop.read("shop://products/MU-1")
    assert product["mimeType"] == "application/json"
    assert '"name":"Enamel mug"' in product["text"]
    photo = shop.read("shop://products/MU-1/photo")
    assert photo["uri"] == "shop://products/MU-1/photo"
    assert base64.b64decode(photo["blob"]).startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("shop://products/none", "There is no product 'none'."),
        ("shop://orders/7", "There is no order 7."),
        ("shop://orders/seven", "Invalid URI: `number`: expected integer, got string"),
        ("shop://nothing", "Resource not found: 'shop://nothing'"),
    ],
)
def test_what_cannot_be_read_is_an_error(shop: Client, uri: str, message: str) -> None:
    """RES-03; a typed variable that does not fit is -32602 too."""
    error = shop.ask("resources/read", {"uri": uri})
    assert (error["code"], error["message"]) == (-32602, message)


def test_prompts_are_listed_and_written(shop: Client) -> None:
    """One message and several, with arguments and an embedded resource."""
    prompts = {prompt["name"]: prompt for prompt in shop.ask("prompts/list")["prompts"]}
    assert prompts["find_present"] == {
        "name": "find_present",
        "title": "Find a present",
        "description": "Let the model look for a present.",
        "arguments": [
            {"name": "recipient", "description": "Who it is for.", "required": True},
            {"name": "category"},
            {"name": "budget", "description": "In cents."},
        ],
    }
    (message,) = shop.ask("prompts/get", {"name": "find_present", "arguments": {"recipient": "Ada"}})[
        "messages"
    ]
    assert message["content"]["text"] == (
        "Search the shop's clothing for a present for Ada that costs at most 5000 cents."
    )
    arguments = {"first": "SH-1", "second": "SH-2"}
    messages = shop.ask("prompts/get", {"name": "compare", "arguments": arguments})["messages"]
    assert [message["role"] for message in messages] == ["user", "user", "user", "assistant"]
    assert messages[1]["content"]["resource"]["uri"] == "shop://products/SH-1"
    wrong = shop.ask(
        "prompts/get", {"name": "find_present", "arguments": {"recipient": "x", "budget": "much"}}
    )
    assert wrong["code"] == -32602
    assert "`budget`: expected integer" in wrong["message"]


def test_arguments_complete(shop: Client) -> None:
    """By a function, by one that knows the other arguments, and by a Literal."""
    compare = {"type": "ref/prompt", "name": "compare"}
    assert shop.complete(compare, "first", "sh") == ["SH-1", "SH-2"]
    assert shop.complete(compare, "second", "sh", first="SH-1") == ["SH-2"]
    assert shop.complete({"type": "ref/prompt", "name": "find_present"}, "category", "k") == ["kitchen"]
    template = {"type": "ref/resource", "uri": "shop://products/{sku}"}
    assert shop.complete(template, "sku", "") == ["SH-1", "SH-2", "MU-1", "TE-1", "RA-1"]
