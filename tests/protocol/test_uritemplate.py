"""URI templates: expansion by the tables of RFC 6570, and matching by the rules of the module."""

import enum
import itertools
import re
import time
from urllib.parse import unquote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcpkit.protocol.uritemplate import UriTemplate, is_template

VALUES = {
    "count": ["one", "two", "three"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_list": [],
    "undef": None,
}

# RFC 6570 sections 3.2.1 to 3.2.9, without the rows that need level 4 or use one variable twice.
RFC_ROWS = [
    ("{count}", "one,two,three"),
    ("{/count}", "/one,two,three"),
    ("{/count*}", "/one/two/three"),
    ("{;count}", ";count=one,two,three"),
    ("{?count}", "?count=one,two,three"),
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("{x,y}", "1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("?{x,empty}", "?1024,"),
    ("?{x,undef}", "?1024"),
    ("?{undef,y}", "?768"),
    ("{list}", "red,green,blue"),
    ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"),
    ("{+half}", "50%25"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("O{+empty}X", "OX"),
    ("O{+undef}X", "OX"),
    ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"),
    ("up{+path}{var}/here", "up/foo/barvalue/here"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"),
    ("{+list}", "red,green,blue"),
    ("{#var}", "#value"),
    ("{#hello}", "#Hello%20World!"),
    ("{#half}", "#50%25"),
    ("foo{#empty}", "foo#"),
    ("foo{#undef}", "foo"),
    ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("{#list}", "#red,green,blue"),
    ("{.who}", ".fred"),
    ("{.half,who}", ".50%25.fred"),
    ("X{.var}", "X.value"),
    ("X{.empty}", "X."),
    ("X{.undef}", "X"),
    ("X{.list}", "X.red,green,blue"),
    ("{/who}", "/fred"),
    ("{/half,who}", "/50%25/fred"),
    ("{/who,dub}", "/fred/me%2Ftoo"),
    ("{/var}", "/value"),
    ("{/var,empty}", "/value/"),
    ("{/var,undef}", "/value"),
    ("{/var,x}/here", "/value/1024/here"),
    ("{/list}", "/red,green,blue"),
    ("{/list*}", "/red/green/blue"),
    ("{;who}", ";who=fred"),
    ("{;half}", ";half=50%25"),
    ("{;empty}", ";empty"),
    ("{;v,empty,who}", ";v=6;empty;who=fred"),
    ("{;v,bar,who}", ";v=6;who=fred"),
    ("{;x,y}", ";x=1024;y=768"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
    ("{;x,y,undef}", ";x=1024;y=768"),
    ("{;list}", ";list=red,green,blue"),
    ("{?who}", "?who=fred"),
    ("{?half}", "?half=50%25"),
    ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{?list}", "?list=red,green,blue"),
    ("{&who}", "&who=fred"),
    ("{&half}", "&half=50%25"),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="),
    ("{&x,y,undef}", "&x=1024&y=768"),
    ("{&list}", "&list=red,green,blue"),
    ("{/empty_list*}", ""),
    ("{?empty_list}", ""),
]


@pytest.mark.parametrize(("template", "uri"), RFC_ROWS)
def test_expansion_gives_the_rfc_table(template: str, uri: str) -> None:
    """RFC 6570 sections 3.2.1 to 3.2.9."""
    assert UriTemplate(template).expand(VALUES) == uri


class Colour(enum.StrEnum):
    RED = "red"


class Shade(str, enum.Enum):  # noqa: UP042 - the older spelling, whose str() is "Shade.DARK"
    DARK = "dark"


class Size(enum.IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (-1.5, "-1.5"),
        (1e22, "1e%2B22"),
        (True, "true"),
        (False, "false"),
        (Colour.RED, "red"),
        (Shade.DARK, "dark"),
        (Size.BIG, "3"),
        ([1, None, "a b"], "1,a%20b"),
        (("x", True), "x,true"),
        ([None], ""),
        ("šé", "%C5%A1%C3%A9"),
        ("a\0{}", "a%00%7B%7D"),
        ("50%25", "50%2525"),
    ],
)
def test_expansion_writes_scalars_and_lists(value: object, text: str) -> None:
    """DESIGN 4.3: typed parameters; RFC 6570 section 3.2.1: an undefined member of a list is left out."""
    assert UriTemplate("{x}").expand({"x": value}) == text


def test_expansion_of_a_scalar_exploded_is_one_segment() -> None:
    """RFC 6570 section 3.2.6: explode has no effect on a string."""
    assert UriTemplate("a:{/x*}").expand({"x": "b c"}) == "a:/b%20c"


def test_reserved_expansion_keeps_escapes_and_encodes_a_lone_percent() -> None:
    """RFC 6570 section 3.2.3: pct-encoded triplets pass, a ``%`` that starts none is encoded."""
    assert UriTemplate("{+x}").expand({"x": "a%2Fb%zz%2"}) == "a%2Fb%25zz%252"


def test_expansion_ignores_names_that_are_not_in_the_template() -> None:
    """RFC 6570 section 3: the variables given may be more than the template has."""
    assert UriTemplate("{x}").expand({"x": 1, "other": object()}) == "1"


@pytest.mark.parametrize("value", [{"a": 1}, b"bytes", object(), [[1]]])
def test_expansion_refuses_a_type_without_a_form_in_a_uri(value: object) -> None:
    """STYLE habit 10: the error names the variable and the types that work."""
    with pytest.raises(TypeError, match=r"variable 'x': \w+ has no form in a URI; pass str, int"):
        UriTemplate("{x}").expand({"x": value})


def test_expansion_refuses_text_that_is_not_unicode() -> None:
    """RFC 6570 section 1.6: values are sequences of Unicode characters, encoded as UTF-8."""
    with pytest.raises(ValueError, match="variable 'x': the value holds a lone surrogate"):
        UriTemplate("{x}").expand({"x": "\ud800"})


# --- templates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "position", "problem"),
    [
        ("docs://{slug", 7, "'{' has no counterpart"),
        ("docs://slug}", 11, "'}' has no counterpart"),
        ("docs://{a{b}}", 7, "'{' has no counterpart"),
        ("docs://{}", 8, "the expression has no variable"),
        ("docs://{+}", 9, "the expression has no variable"),
        ("x{a,}", 4, "'' is not a name"),
        ("x{?,a}", 3, "'' is not a name"),
        ("x{a-b}", 2, "'a-b' is not a name"),
        ("x{a.}", 2, "'a.' is not a name"),
        ("x{?a, b}", 5, "' b' is not a name"),
        ("x{größe}", 2, "'größe' is not a name"),
        ("x{a%zz}", 2, "'a%zz' is not a name"),
        ("x{a\n}", 2, "is not a name"),
        ("x{*}", 2, "'*' is not a name"),
        ("x{??a}", 3, "'?a' is not a name"),
        ("x{=a}", 2, "operator '=' is reserved"),
        ("x{|a*}", 2, "operator '|' is reserved"),
        ("x{$a}", 2, "'$a' is not a name"),
        ("x{a*}", 3, "modifier '*' is not supported; only {/name*} is"),
        ("x{?a,b*}", 6, "modifier '*' is not supported"),
        ("x{/a:3}", 4, "modifier ':3' is not supported"),
        ("x{/a:3*}", 4, "modifier ':3*' is not supported"),
        ("x{/a**}", 3, "'a**' is not a name"),
        ("x{a}{b}{?a}", 9, "variable 'a' is used twice"),
        ("x{/a,a}", 5, "variable 'a' is used twice"),
        ("my note/{a}", 2, "a literal ' ' has to be percent-encoded"),
        ("50%/{a}", 2, "a literal '%' has to be percent-encoded"),
        ("{a}\ud800", 3, "has to be percent-encoded"),
    ],
)
def test_a_bad_template_is_refused_with_its_position(template: str, position: int, problem: str) -> None:
    """RFC 6570 sections 2 and 3: the grammar; STYLE habit 10: what happened and what to do."""
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        UriTemplate(template)
    assert f"URI template {template!r}, position {position}:" in str(caught.value)


def test_an_error_shows_only_the_start_of_a_long_template() -> None:
    """Errors are for people."""
    with pytest.raises(ValueError, match="position 0") as caught:
        UriTemplate("{" * 1_000_000)
    assert len(str(caught.value)) < 300


def test_a_template_tells_its_names_in_order_and_which_are_lists() -> None:
    """DESIGN 4.3: template variables become the function's parameters."""
    template = UriTemplate("a://{z}/{+last.name}{/x,y*}{?q,a_1}")
    assert template.names == ("z", "last.name", "x", "y", "q", "a_1")
    assert template.exploded == {"y"}
    assert template.text == "a://{z}/{+last.name}{/x,y*}{?q,a_1}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [("a://b", False), ("a://{b}", True), ("{+a}", True), ("", False), ("a://{b", True), ("a://b}", True)],
)
def test_a_text_with_a_brace_is_a_template(text: str, answer: bool) -> None:
    """DESIGN 4.3: a URI with ``{…}`` is a template; half of one must not pass as a URI."""
    assert is_template(text) is answer


# --- matching -----------------------------------------------------------------------------------

MATCHES = [
    # simple
    ("docs://{slug}", "docs://intro", {"slug": "intro"}),
    ("docs://{slug}", "docs://a.b-c_d~e", {"slug": "a.b-c_d~e"}),
    ("docs://{slug}", "docs://a%2Fb", {"slug": "a/b"}),
    ("docs://{slug}", "docs://a%2fb", {"slug": "a/b"}),
    ("docs://{slug}", "docs://%2E%2E%2Fetc%00", {"slug": "../etc\0"}),
    ("docs://{slug}", "docs://a%20b%25", {"slug": "a b%"}),
    ("docs://{slug}", "docs://%C3%BCber", {"slug": "über"}),
    ("docs://{slug}", "docs://über", {"slug": "über"}),
    ("docs://{slug}", "docs://a!b*c'(d)", {"slug": "a!b*c'(d)"}),
    ("test://template/{id}/data", "test://template/123/data", {"id": "123"}),
    ("a://{x}/{y}", "a://1/2", {"x": "1", "y": "2"}),
    ("a://{x,y}", "a://1,2", {"x": "1", "y": "2"}),
    ("log://{y}-{m}-{d}", "log://2025-06-18", {"y": "2025", "m": "06", "d": "18"}),
    ("f://{name}.{ext}", "f://archive.tar.gz", {"name": "archive.tar", "ext": "gz"}),
    ("a://{x}{y}", "a://abc", {"x": "ab", "y": "c"}),
    ("a://{x}{y}", "a://%C3%A9%E2%82%AC", {"x": "é", "y": "€"}),
    ("a://{x}41", "a://%4141", {"x": "A"}),
    ("caf%C3%A9://{x}", "caf%C3%A9://1", {"x": "1"}),
    ("a://café/{x}", "a://café/1", {"x": "1"}),
    ("a://café/{x}", "a://caf%C3%A9/1", {"x": "1"}),
    ("{x}", "abc", {"x": "abc"}),
    ("users://{email}", "users://a.b@example.com", {"email": "a.b@example.com"}),
    ("at://{hour}:{minute}", "at://12:30", {"hour": "12", "minute": "30"}),
    # reserved and fragment
    ("file:///{+path}", "file:///a/b%20c.txt?v=1#top", {"path": "a/b c.txt?v=1#top"}),
    ("f://{+dir}/{name}", "f://a/b/c", {"dir": "a/b", "name": "c"}),
    ("f://{+dir}/raw/{+rest}", "f://a/raw/b/raw/c", {"dir": "a", "rest": "b/raw/c"}),
    ("f://{+path}.md", "f://a.md/b.md", {"path": "a.md/b"}),
    ("f://{+path}{?v}", "f://a/b?v=2", {"path": "a/b", "v": "2"}),
    ("f://{+path}{?v}", "f://a/b", {"path": "a/b"}),
    ("f://{+path}{#part}", "f://a/b#c/d", {"path": "a/b", "part": "c/d"}),
    ("f://{+x,y}", "f://a/b,c", {"x": "a/b", "y": "c"}),
    ("p{#x}", "p#a/b?c", {"x": "a/b?c"}),
    ("p{#x}", "p#", {"x": ""}),
    ("p{#x,y}", "p#,", {"x": "", "y": ""}),
    # labels, segments, path parameters
    ("www{.dom}", "www.example", {"dom": "example"}),
    ("www{.a,b}", "www.x.y.z", {"a": "x.y", "b": "z"}),
    ("X{.a}", "X.", {"a": ""}),
    ("a://h{/x}", "a://h/b", {"x": "b"}),
    ("a://h{/x}", "a://h/", {"x": ""}),
    ("a://h{/x,y}/z", "a://h/1//z", {"x": "1", "y": ""}),
    ("a://h{/p*}", "a://h/a/b%2Fc/d", {"p": ["a", "b/c", "d"]}),
    ("a://h{/p*}", "a://h/", {"p": [""]}),
    ("a://h{/p*}", "a://h//a/", {"p": ["", "a", ""]}),
    ("a://h{/p*}/edit", "a://h/a/edit/edit", {"p": ["a", "edit"]}),
    ("a://h{/p*,last}", "a://h/a/b/c", {"p": ["a", "b"], "last": "c"}),
    ("a://h{/p*}{?q}", "a://h/a/b?q=1", {"p": ["a", "b"], "q": "1"}),
    ("a://h{;x,y}", "a://h;x=1;y=2", {"x": "1", "y": "2"}),
    ("a://h{;x,y}", "a://h;x;y=2", {"x": "", "y": "2"}),
    ("a://h{;x}y", "a://h;xy", {"x": ""}),
    ("a://h{;x}y", "a://h;x=yy", {"x": "y"}),
    # queries
    ("a://h{?x,y}", "a://h?x=1&y=2", {"x": "1", "y": "2"}),
    ("a://h{?x,y}", "a://h?y=2&x=1", {"x": "1", "y": "2"}),
    ("a://h{?x,y}", "a://h?y=2", {"y": "2"}),
    ("a://h{?x,y}", "a://h?x=", {"x": ""}),
    ("a://h{?x,y}", "a://h", {}),
    ("a://h{?x,xy}", "a://h?xy=1&x=2", {"x": "2", "xy": "1"}),
    ("a://h{?q}", "a://h?q=a%26b%3Dc", {"q": "a&b=c"}),
    ("a://h?f=1{&x,y}", "a://h?f=1&y=2&x=1", {"x": "1", "y": "2"}),
    ("a://h?f=1{&x,y}", "a://h?f=1", {}),
    ("a://h{?x}{&y}", "a://h?x=1&y=2", {"x": "1", "y": "2"}),
    ("a://h{?x}{&y}", "a://h&y=2", {"y": "2"}),
    ("a://h{?x}{#f}", "a://h?x=1#2", {"x": "1", "f": "2"}),
    ("a://h{?x}suffix", "a://h?x=1suffix", {"x": "1"}),
    ("a://h{?x}&x=9", "a://h?x=1&x=9", {"x": "1"}),
    ("a://h{?x,y}z&y=9", "a://h?x=1z&y=9", {"x": "1"}),
    ("a://plain", "a://plain", {}),
    ("", "", {}),
]


@pytest.mark.parametrize(("template", "uri", "values"), MATCHES)
def test_a_uri_matches_and_gives_decoded_values(template: str, uri: str, values: dict[str, object]) -> None:
    """RES-06, DESIGN 4.3: variables are extracted percent-decoded, by the rules of the module."""
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        # literals are exact
        ("docs://{slug}", "DOCS://intro"),
        ("docs://{slug}", "docs:/intro"),
        ("docs://{slug}", "docs://intro/"),
        ("docs://{slug}/x", "docs://intro/X"),
        ("a://{x}/b/", "a:///b/"),
        ("ab{x}bc", "abc"),
        ("a://plain", "a://plain2"),
        # a simple value holds no reserved character, and at least one other
        ("docs://{slug}", "docs://"),
        *[("docs://{slug}", f"docs://a{char}b") for char in "/?#[]&+,;="],
        # what no URI holds, such as the template itself
        *[("docs://{+slug}", f"docs://a{char}b") for char in ' "<>\\^`{|}\n\x00\x7f'],
        ("docs://{slug}", "docs://{slug}"),
        ("docs://{+path}", "docs://"),
        ("a://{x,y}", "a://1,"),
        ("a://{x,y}", "a://,1"),
        # escapes: malformed, cut in two, not UTF-8
        ("docs://{slug}", "docs://%zz"),
        ("docs://{slug}", "docs://%"),
        ("docs://{slug}", "docs://a%2"),
        ("docs://{+slug}", "docs://%zz"),
        ("docs://{slug}", "docs://%FF"),
        ("docs://{slug}", "docs://%C3"),
        ("docs://{slug}", "docs://%ED%A0%80"),
        ("docs://{slug}", "docs://\ud800"),
        ("docs://{a}{b}", "docs://%C3%A9%FF"),
        ("docs://{slug}41", "docs://%41"),
        ("docs://{slug}1", "docs://%41"),
        ("docs://{a}4{b}", "docs://%41"),
        ("docs://{a}4{b}", "docs://x%41"),
        # a value is required
        ("a://h{/x}", "a://h"),
        ("a://h{/p*}", "a://h"),
        ("a://h{.x}", "a://h"),
        ("a://h{#x}", "a://h"),
        ("a://h{;x,y}", "a://h;x=1"),
        ("a://h{;x,y}", "a://h;y=2;x=1"),
        ("a://h{;x}", "a://h;x="),
        ("a://h{;x}", "a://h;xx=1"),
        # queries: unknown, repeated, or no pair at all
        ("a://h{?x,y}", "a://h?x=1&z=2"),
        ("a://h{?x,y}", "a://h?z=2"),
        ("a://h{?x,y}", "a://h?x=1&x=2"),
        ("a://h{?x,y}", "a://h?x=1&y=2&x=3"),
        ("a://h{?x,y}", "a://h?"),
        ("a://h{?x,y}", "a://h?x"),
        ("a://h{?x,y}", "a://h?x=1&"),
        ("a://h{?x,y}", "a://h?x=1&&y=2"),
        ("a://h{?x,y}", "a://h&x=1"),
        ("a://h{?x,y}", "a://h?x=a=b"),
        ("a://h{?x}", "a://h?x=1#f"),
        ("a://h?f=1{&x}", "a://h?f=2&x=1"),
        ("a://h{?x}{&y}", "a://h?y=2&x=1"),
    ],
)
def test_a_uri_that_no_values_expand_to_does_not_match(template: str, uri: str) -> None:
    """RES-06, RES-03: it is an unknown URI; RFC 6570 section 3.2 tells what an expansion can be."""
    assert UriTemplate(template).match(uri) is None


HOSTILE = 100_000


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a:{x}", "a:" + "x" * HOSTILE),
        ("a:{x}", "a:" + "%" * HOSTILE),
        ("a:{x}", "a:" + "%41" * (HOSTILE // 3)),
        ("a:{x}", "a:" + "é" * HOSTILE),
        ("a:{p}-{q}-{r}-{s}", "a:" + "-" * HOSTILE + "/"),
        ("a:{p}{q}{r}{s}{t}", "a:" + "x" * HOSTILE + "/"),
        ("a:{+p}-{q}/y/{+r}/z", "a:" + "-" * HOSTILE),
        ("a:{+p}/{q}/{+r}.{s}/t", "a:" + "/-." * (HOSTILE // 3)),
        ("a:{+p,q,r,s}/t", "a:" + "," * HOSTILE),
        ("a{.p,q,r,s,t}/", "a" + "." * HOSTILE),
        ("a{/p*}", "a" + "/" * HOSTILE),
        ("a{/p*,q*,r*}/s{.t}", "a" + "/b.c" * (HOSTILE // 4)),
        ("a{;p,q}", "a" + ";p=1" * (HOSTILE // 4)),
        ("a{?p,q,r}", "a?" + "p=1&" * (HOSTILE // 4)),
        ("{+a}{?p,q,r}{&s,t}", "a" + "?p=1&q=&s=" * (HOSTILE // 10)),
        ("{+a}abcabcabcabc{+b}", "abc" * (HOSTILE // 3)),
    ],
)
def test_a_hostile_uri_is_answered_at_once(template: str, uri: str) -> None:
    """The URI is the client's (RES-07): matching takes linear time, some milliseconds here.

    A backtracking engine would need minutes to years for most of these.
    """
    compiled = UriTemplate(template)
    start = time.perf_counter()
    values = compiled.match(uri)
    assert time.perf_counter() - start < 1
    assert values is None or values.keys() <= set(compiled.names)


# --- properties ---------------------------------------------------------------------------------

unhurried = settings(deadline=None)  # a slow machine is no failure

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
somes = texts.filter(bool)
plain = somes.filter(lambda text: re.search("%[0-9A-Fa-f]{2}", text) is None)
lists = st.lists(texts, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("template", "required", "optional"),
    [
        ("a://{x}", {"x": somes}, {}),
        ("a://{x}/b/{y}", {"x": somes, "y": somes}, {}),
        ("a://{x,y}", {"x": somes, "y": somes}, {}),
        ("a://{+x}", {"x": plain}, {}),
        ("a://{+x}/{y}", {"x": plain, "y": somes}, {}),
        ("a://h{#x}", {"x": plain}, {}),
        ("a://h{.x}", {"x": texts}, {}),
        ("a://h{/x,y}", {"x": texts, "y": texts}, {}),
        ("a://h{/x*}", {"x": lists}, {}),
        ("a://h{/x*,y}/z", {"x": lists, "y": texts}, {}),
        ("a://h{;x,y}", {"x": texts, "y": texts}, {}),
        ("a://h{?x,y,z}", {}, {"x": texts, "y": texts, "z": texts}),
        ("a://h?f=1{&x,y}", {}, {"x": texts, "y": texts}),
        ("é://{x}{/y*}{?z}{#f}", {"x": somes, "y": lists, "f": plain}, {"z": texts}),
    ],
)
@unhurried
@given(data=st.data())
def test_values_survive_the_round_trip(
    template: str,
    required: dict[str, st.SearchStrategy[object]],
    optional: dict[str, st.SearchStrategy[object]],
    data: st.DataObject,
) -> None:
    """Rule 1 of the module: in a template whose split is unique, matching undoes expansion."""
    compiled = UriTemplate(template)
    values = data.draw(st.fixed_dictionaries(required, optional=optional))
    assert compiled.match(compiled.expand(values)) == values


NAMES = "abcdefghijkl"
LITERALS = ["a", "-", ".", "/", "%41", "41", "=", "&a", "?", ";", ","]


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Templates with one or two variables an expression, named a, b, c… in order."""
    names = iter(NAMES)
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            parts.append(draw(st.sampled_from(LITERALS)))
            continue
        operator = draw(st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]))
        stars = st.sampled_from(["", "*"]) if operator == "/" else st.just("")
        parts.append(
            "{" + operator + ",".join(next(names) + draw(stars) for _ in range(draw(st.integers(1, 2)))) + "}"
        )
    return "".join(parts)


def oracle(template: str) -> re.Pattern[str]:
    """Return the obvious, backtracking pattern for a template; the group of variable x is x, x1, x2…"""
    unit = r"(?:[A-Za-z0-9._~!*'()@:$-]|%[0-9A-Fa-f]{2})"
    anything = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"

    def query(first: str, names: list[str], counter: "itertools.count[int]") -> str:
        orders = [
            order for size in range(len(names), -1, -1) for order in itertools.permutations(names, size)
        ]
        pair = [[f"{name}=(?P<{name}{next(counter)}>{unit}*)" for name in order] for order in orders]
        return "(?:" + "|".join(re.escape(first) + "&".join(pairs) if pairs else "" for pairs in pair) + ")"

    def value(operator: str, name: str) -> str:
        if name.endswith("*"):
            return f"(?P<{name[0]}>(?:{unit}|/)*)"
        if operator == ";":
            return f"{name}(?:=(?P<{name}>{unit}+)|(?P<{name}1>))"
        chars = {"": unit + "+", "+": anything + "+?", "#": anything + "*?"}.get(operator, unit + "*")
        return f"(?P<{name}>{chars})"

    def expression(found: re.Match[str]) -> str:
        operator, names = found[1], found[2].split(",")
        if operator in ("?", "&"):
            return query(operator, names, itertools.count(1))
        first = "" if operator in ("", "+") else operator
        separator = "," if operator in ("", "+", "#") else operator
        return re.escape(first) + re.escape(separator).join(value(operator, name) for name in names)

    pieces = re.split(r"(\{[^}]*\})", template)
    return re.compile(
        "".join(re.sub(r"\{([+#./;?&]?)(.*)\}", expression, p) if "{" in p else re.escape(p) for p in pieces)
    )


def expected(template: str, uri: str) -> dict[str, str] | None:
    found = oracle(template).fullmatch(uri)
    return found and {
        name[0]: unquote(value) for name, value in found.groupdict().items() if value is not None
    }


uris = st.lists(st.sampled_from([*"ab-./?&=;#,", "%41", "a=", "&a=", "?b="]), max_size=14).map("".join)


@unhurried
@given(templates(), st.data())
def test_matching_agrees_with_a_backtracking_engine(template: str, data: st.DataObject) -> None:
    """The linear algorithm finds what a plain regular expression finds and splits as it does (rule 5)."""
    compiled = UriTemplate(template)
    uri = data.draw(uris | st.fixed_dictionaries(dict.fromkeys(compiled.names, uris)).map(compiled.expand))
    # A repeated pair is left to `Query.read`, which does not look for another split.
    assume(all(len(re.findall(f"[?&]{name}=", uri)) < 2 for name in compiled.names))
    values = compiled.match(uri)
    joined = values and {
        name: value if isinstance(value, str) else "/".join(value) for name, value in values.items()
    }
    assert joined == expected(template, uri)


@unhurried
@given(templates(), st.data())
def test_every_expansion_matches_and_expands_again(template: str, data: st.DataObject) -> None:
    """Rule 1 of the module: where the split is not unique, too, the values expand to the same URI.

    The same up to its escapes: ``{+x}`` may have taken an escape that another variable wrote, keeping ``;``.
    """
    compiled = UriTemplate(template)
    some = st.text(st.sampled_from("ab-./é #,;"), min_size=1, max_size=6)
    values = {
        name: [data.draw(some)] if name in compiled.exploded else data.draw(some) for name in compiled.names
    }
    uri = compiled.expand(values)
    found = compiled.match(uri)
    assert found is not None
    assert unquote(compiled.expand(found)) == unquote(uri)


@unhurried
@given(templates(), st.text(max_size=40))
def test_no_text_makes_matching_fail(template: str, uri: str) -> None:
    """RES-07: a URI is the client's, and anything may come."""
    found = UriTemplate(template).match(uri)
    assert found is None or found.keys() <= set(NAMES)


@unhurried
@given(st.text(st.sampled_from("{}+#./;?&*:,ab%4 é"), max_size=30))
def test_any_text_is_a_template_or_a_value_error(text: str) -> None:
    """RFC 6570 section 3: errors are reported; nothing else may happen."""
    try:
        template = UriTemplate(text)
    except ValueError as error:
        assert "position" in str(error)  # noqa: PT017
    else:
        assert len(set(template.names)) == len(template.names)
        assert bool(template.names) is is_template(text)
