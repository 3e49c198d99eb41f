import hashlib
import hmac
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs

import anyio
import pytest

from hermes import ToolContext, tool
from hermes.core.chat import ToolCall
from hermes.errors import ConfigError, HermesError, NotDone, ToolError
from hermes.testing import FakeClock
from hermes.tools import Prepared, ToolRegistry, prepare, run
from hermes.tools.http_api import (
    ApiFault,
    ApiKey,
    Auth,
    Basic,
    BodyCode,
    ErrorOf,
    HmacSigning,
    HttpApi,
    OAuth2ClientCredentials,
)
from hermes.tools.web.client import WebRequest, read_url
from tests.web import Reply, Seen, Web

SECRET = 's3"cr+t/Zq9=&x'
ESCAPED = "s3%22cr%2Bt%2FZq9%3D%26x"
JSON = {"content-type": "application/json"}


def reply(body: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status=status, headers={**JSON, **headers}, body=json.dumps(body).encode())


def api(
    web: Web,
    *,
    auth: Auth | None = None,
    error_of: ErrorOf | None = None,
    timeout_s: float = 5,
    headers: Mapping[str, str] | None = None,
    clock: FakeClock | None = None,
) -> HttpApi:
    return HttpApi(
        "crm",
        base_url=f"{web.url}/api/",
        auth=auth,
        error_of=error_of,
        timeout_s=timeout_s,
        headers=headers,
        clock=clock or FakeClock(),
    )


def oauth(web: Web, *, in_body: bool = False) -> OAuth2ClientCredentials:
    return OAuth2ClientCredentials(
        token_url=f"{web.url}/token",
        client_id="hermes",
        client_secret=SECRET,
        scope="orders",
        in_body=in_body,
    )


class TokenServer:
    """Gives numbered tokens at /token, and takes the last one alone elsewhere."""

    def __init__(self, *, lasts_s: object = 3600) -> None:
        self.given = 0
        self.lasts_s = lasts_s
        self.forms: list[dict[str, list[str]]] = []
        self.revoked = False

    def __call__(self, seen: Seen) -> Reply:
        if seen.path == "/token":
            self.given += 1
            self.revoked = False
            self.forms.append(parse_qs(seen.body.decode()))
            token = {"access_token": f"token-{self.given}-Zq9", "token_type": "bearer"}
            return reply(token | ({"expires_in": self.lasts_s} if self.lasts_s else {}))
        right = seen.headers.get("authorization") == f"Bearer token-{self.given}-Zq9"
        if self.revoked or not right:
            return reply({"error": "expired"}, 401)
        return reply({"with": self.given})


async def test_values_are_escaped_into_path_and_query() -> None:
    async with Web(lambda _: reply([1])) as web:
        found = await api(web).get(
            "/orders/{order}/items", values={"order": "A/7?x=1#é"}, query={"q": "退 &", "all": True}
        )
    assert found == [1]
    assert web.seen[0].target == "/api/orders/A%2F7%3Fx%3D1%23%C3%A9/items?q=%E9%80%80+%26&all=true"


@pytest.mark.parametrize(
    "path",
    ["orders", "http://evil.example/", "//evil.example/x", "/a/../admin", "/./a", "/a?x=1", "/a#b"]
    + ["/a\\b", "/a\nb", "/a//b", "/{missing}", "/{"],
)
async def test_a_path_leads_nowhere_else(path: str) -> None:
    async with Web(lambda _: reply({})) as web:
        with pytest.raises(ToolError) as caught:
            await api(web).get(path)
    assert caught.value.code == "bad_path"
    assert web.seen == []


@pytest.mark.parametrize("value", ["..", "."])
async def test_nor_does_a_value(value: str) -> None:
    async with Web(lambda _: reply({})) as web:
        with pytest.raises(ToolError, match="no `.` and no `..`"):
            await api(web).get("/orders/{order}", values={"order": value})
    assert web.seen == []


async def test_a_post_carries_json_and_a_key() -> None:
    async with Web(lambda _: reply({"id": 7}, 201)) as web:
        crm = api(web, headers={"X-Tenant": "t1"})
        assert await crm.post("/orders", json={"名": 1}, idempotency_key="k/1") == {"id": 7}
    seen = web.seen[0]
    assert (seen.method, seen.body) == ("POST", '{"名":1}'.encode())
    assert seen.headers["idempotency-key"] == "k/1"
    assert (seen.headers["x-tenant"], seen.headers["content-type"]) == ("t1", "application/json")


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (ApiKey(key=SECRET), "x-api-key", SECRET),
        (ApiKey(key=SECRET, header="Authorization", prefix="Bearer "), "authorization", None),
        (Basic(user="анна", password=SECRET), "authorization", None),
    ],
)
async def test_a_fixed_secret_stands_in_its_header(
    auth: Auth, header: str, value: str | None
) -> None:
    pair = b64encode(f"анна:{SECRET}".encode()).decode()
    expected = value or (f"Basic {pair}" if isinstance(auth, Basic) else f"Bearer {SECRET}")
    async with Web(lambda _: reply(None)) as web:
        assert await api(web, auth=auth).get("/me") is None
    assert web.seen[0].headers[header] == expected


async def test_a_key_may_stand_in_the_query() -> None:
    async with Web(lambda _: reply({})) as web:
        await api(web, auth=ApiKey(key=SECRET, query="key")).get("/me", query={"a": 1})
    query = web.seen[0].target.partition("?")[2]
    assert parse_qs(query) == {"a": ["1"], "key": [SECRET]}


async def test_a_signature_covers_method_path_time_and_body() -> None:
    clock = FakeClock()
    auth = HmacSigning(key_id="k1", secret=SECRET)
    async with Web(lambda _: reply({})) as web:
        crm = api(web, auth=auth, clock=clock)
        await crm.post("/orders", json={"a": "退"}, query={"dry": "1"})
        clock.advance(5)
        await crm.get("/orders")
    first, second = web.seen
    body = hashlib.sha256('{"a":"退"}'.encode()).hexdigest()
    signed = f"POST\n/api/orders?dry=1\n1767225600\n{body}".encode()
    assert first.headers["x-signature"] == hmac.new(SECRET.encode(), signed, "sha256").hexdigest()
    assert (first.headers["x-key-id"], first.headers["x-timestamp"]) == ("k1", "1767225600")
    assert second.headers["x-timestamp"] == "1767225605"


async def test_calls_beside_each_other_share_one_token() -> None:
    server = TokenServer()
    async with Web(server) as web:
        crm = api(web, auth=oauth(web))
        found: list[object] = []

        async def look() -> None:
            found.append(await crm.get("/me"))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(look)
    assert found == [{"with": 1}] * 10
    assert server.given == 1
    pair = b64encode(f"hermes:{ESCAPED}".encode()).decode()
    token_request = next(seen for seen in web.seen if seen.path == "/token")
    assert token_request.headers["authorization"] == f"Basic {pair}"
    assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["orders"]}]


async def test_id_and_secret_may_stand_in_the_body() -> None:
    server = TokenServer()
    async with Web(server) as web:
        await api(web, auth=oauth(web, in_body=True)).get("/me")
    assert server.forms[0]["client_secret"] == [SECRET]
    assert "authorization" not in web.seen[0].headers


async def test_a_token_is_renewed_before_its_end() -> None:
    server, clock = TokenServer(lasts_s="100"), FakeClock()
    async with Web(server) as web:
        crm = api(web, auth=oauth(web), clock=clock)
        await crm.get("/me")
        clock.advance(89)
        assert await crm.get("/me") == {"with": 1}
        clock.advance(2)
        assert await crm.get("/me") == {"with": 2}


async def test_a_refused_token_is_renewed_once_for_all_who_hold_it() -> None:
    server = TokenServer(lasts_s=None)
    async with Web(server) as web:
        crm = api(web, auth=oauth(web))
        await crm.get("/me")
        server.revoked = True
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(crm.get, "/me")
        assert server.given == 2


async def test_a_late_refusal_of_an_old_token_keeps_the_new_one() -> None:
    server = TokenServer()
    async with Web(server) as web:
        auth = oauth(web)
        crm = api(web, auth=auth)
        await crm.get("/me")
        server.revoked = True
        await crm.get("/me")
        old = {"authorization": "Bearer token-1-Zq9"}
        assert auth.renew(WebRequest(method="GET", url=read_url(web.url), headers=old))
        assert await crm.get("/me") == {"with": 2}
    assert server.given == 2


async def test_a_second_refusal_is_the_end() -> None:
    def answer(seen: Seen) -> Reply:
        return reply({"access_token": "t"}) if seen.path == "/token" else reply({}, 401)

    async with Web(answer) as web:
        with pytest.raises(ToolError, match=r"crm: GET /me: status 401") as caught:
            await api(web, auth=oauth(web)).get("/me")
    assert (caught.value.code, caught.value.retryable) == ("unauthorized", False)
    assert [seen.path for seen in web.seen] == ["/token", "/api/me"] * 2


async def test_a_code_in_the_body_may_ask_for_a_new_token() -> None:
    server = TokenServer()

    def answer(seen: Seen) -> Reply:
        given = server(seen)
        if seen.path != "/token" and server.given == 1:
            return reply({"errcode": 42001, "errmsg": "access_token expired"})
        return given

    form = BodyCode(code="errcode", message="errmsg", renew=(42001,))
    async with Web(answer) as web:
        assert await api(web, auth=oauth(web), error_of=form).get("/me") == {"with": 2}


@pytest.mark.parametrize(
    ("token", "kind", "said"),
    [
        (
            reply({"error": "invalid_client"}, 401),
            ToolError,
            "no token: status 401: invalid_client",
        ),
        (reply({}, 503), NotDone, "no token: status 503; nothing was sent"),
        (reply({"token": "x"}), ToolError, "not with an access_token"),
        (Reply(raw=b""), NotDone, "no token: "),
        (Reply(raw=b"HTTP/1.1", hang=True), NotDone, "did not answer within 1 s"),
    ],
)
async def test_without_a_token_the_call_itself_was_never_sent(
    token: Reply, kind: type[ToolError], said: str
) -> None:
    async with Web(lambda _: token) as web:
        crm = api(web, auth=oauth(web), timeout_s=1 if token.hang else 5)
        with pytest.raises(kind, match=said) as caught:
            await crm.post("/orders", json={})
    assert type(caught.value) is kind
    assert [seen.path for seen in web.seen] == ["/token"]


@pytest.mark.parametrize(
    ("status", "code", "get_again", "post_again"),
    [
        (400, "bad_request", False, False),
        (403, "forbidden", False, False),
        (404, "not_found", False, False),
        (409, "conflict", False, False),
        (422, "invalid", False, False),
        (429, "rate_limited", True, True),
        (500, "server_error", True, False),
        (501, "server_error", False, False),
        (503, "server_error", True, True),
        (302, "http_302", False, False),
    ],
)
async def test_a_status_says_whether_to_try_again(
    status: int, code: str, get_again: bool, post_again: bool
) -> None:
    async with Web(lambda _: reply({"reason": "no"}, status, location="http://evil/")) as web:
        crm = api(web)
        with pytest.raises(ToolError) as got:
            await crm.get("/x")
        with pytest.raises(ToolError) as posted:
            await crm.post("/x")
    assert (got.value.code, got.value.retryable) == (code, get_again)
    assert (posted.value.code, posted.value.retryable) == (code, post_again)
    assert ("find out whether it took effect" in posted.value.hint) == (status == 500)
    assert f'crm: GET /x: status {status}: {{"reason":"no"}}' in str(got.value)
    assert len(web.seen) == 2


@pytest.mark.parametrize("told", ["30", "Thu, 01 Jan 2026 00:00:30 GMT"])
async def test_a_wait_is_told(told: str) -> None:
    async with Web(lambda _: reply({}, 429, **{"retry-after": told})) as web:
        with pytest.raises(ToolError) as caught:
            await api(web).get("/x")
    assert caught.value.hint == "wait 30 s first"


@pytest.mark.parametrize("status", [408, 502, 504])
async def test_a_gateway_that_gave_up_leaves_a_change_in_doubt(status: int) -> None:
    async with Web(lambda _: reply({}, status)) as web:
        with pytest.raises(ConnectionError, match=f"status {status} from a gateway"):
            await api(web).post("/x")
        with pytest.raises(ToolError) as caught:
            await api(web).get("/x")
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("body", "code", "retryable"),
    [
        ({"errcode": 40013, "errmsg": "invalid corpid"}, "40013", False),
        ({"errcode": 45009, "errmsg": "too often"}, "45009", True),
    ],
)
async def test_a_code_in_the_body_is_an_error_whatever_the_status(
    body: dict[str, object], code: str, retryable: bool
) -> None:
    form = BodyCode(code="errcode", message="errmsg", retryable=(45009,))
    async with Web(lambda _: reply(body)) as web:
        with pytest.raises(ToolError) as caught:
            await api(web, error_of=form).post("/x")
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert str(body["errmsg"]) in caught.value.message


@pytest.mark.parametrize("body", [{"errcode": 0, "a": 1}, {"a": 1}, [1], None])
def test_a_body_without_a_fault_is_none(body: object) -> None:
    assert BodyCode(code="errcode")(body) is None


async def test_an_error_form_of_ones_own() -> None:
    def error_of(body: object) -> ApiFault | None:
        return ApiFault(code="closed", message="shop closed", retryable=True)

    async with Web(lambda _: reply({}, 400)) as web:
        with pytest.raises(ToolError, match=r"status 400 \(closed\): shop closed") as caught:
            await api(web, error_of=error_of).get("/x")
    assert caught.value.retryable


async def test_a_page_in_place_of_json_is_an_error() -> None:
    login = Reply(headers={"content-type": "text/html"}, body=b"<html>log in</html>")
    async with Web(lambda _: login) as web:
        with pytest.raises(ToolError, match="with text/html, which is not JSON"):
            await api(web).get("/x")
        with pytest.raises(ConnectionError, match="which is not JSON"):
            await api(web).post("/x")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (Reply(status=204), None),
        (Reply(headers={"content-type": "text/plain"}, body=b"done"), "done"),
        (Reply(headers=JSON, body=b'"done"'), "done"),
        (Reply(headers=JSON, body=b'{"a":'), None),
    ],
)
async def test_what_is_no_object_is_read_too(given: Reply, found: object) -> None:
    async with Web(lambda _: given) as web:
        if given.body == b'{"a":':
            with pytest.raises(ToolError, match="which is not JSON"):
                await api(web).get("/x")
        else:
            assert await api(web).get("/x") == found


ORDER = '{"order": "A-7"}'


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (reply({"id": 1}), "ok"),
        (reply({}, 422), "error"),
        (Reply(raw=b""), "in_doubt"),
        (Reply(raw=b"HTTP/1.1 ", hang=True), "in_doubt"),
        (reply({}, 504), "in_doubt"),
    ],
)
async def test_a_tool_around_it_ends_as_it_should(
    given: Reply, status: str, context: ToolContext
) -> None:
    async with Web(lambda _: given) as web:
        crm = api(web, timeout_s=1 if given.hang else 5)

        @tool
        async def place_order(order: str, ctx: ToolContext) -> object:
            return await crm.post(
                "/orders", json={"order": order}, idempotency_key=ctx.idempotency_key
            )

        call = ToolCall(id="1", name="place_order", arguments=ORDER)
        prepared = prepare(ToolRegistry([place_order]), call)
        assert isinstance(prepared, Prepared)
        result = await run(prepared, context, clock=FakeClock())
    assert result.status == status


def echo(seen: Seen) -> Reply:
    """Shouts every secret back in an error, as a careless system does."""
    shouted = {**seen.headers, "target": seen.target, "body": seen.body.decode()}
    return reply({"error": "bad", "request": shouted, "plain": SECRET}, 400)


AUTHS: dict[str, Callable[[Web], Auth]] = {
    "header": lambda _: ApiKey(key=SECRET),
    "query": lambda _: ApiKey(key=SECRET, query="key"),
    "basic": lambda _: Basic(user="anna", password=SECRET),
    "oauth": lambda web: oauth(web),
    "oauth-body": lambda web: oauth(web, in_body=True),
    "hmac": lambda _: HmacSigning(key_id="k1", secret=SECRET),
}
TOKEN = "token-1-Zq9"
FORMS = [
    SECRET,
    ESCAPED,
    "Zq9",
    TOKEN,
    b64encode(f"anna:{SECRET}".encode()).decode(),
]
FORMS.append(b64encode(f"hermes:{ESCAPED}".encode()).decode())
ANSWERS: dict[str, Callable[[Seen], Reply]] = {
    "echo": echo,
    "echo-after-token": lambda seen: TokenServer()(seen) if seen.path == "/token" else echo(seen),
    "401": lambda _: reply({"error": f"bad {SECRET}"}, 401),
    "404": lambda _: Reply(status=404, body=SECRET.encode()),
    "503": lambda _: reply({}, 503),
    "hang": lambda _: Reply(raw=b"HTTP/1.1 ", hang=True),
    "break": lambda _: Reply(raw=b""),
    "bad-json": lambda _: Reply(headers=JSON, body=b'{"a": '),
}


@pytest.mark.parametrize("auth", AUTHS)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_no_secret_is_in_an_error_a_cause_or_a_log(
    auth: str, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Web(ANSWERS[answer]) as web:
        crm = api(web, auth=AUTHS[auth](web), timeout_s=0.2 if answer == "hang" else 5)
        with pytest.raises((HermesError, OSError)) as caught:
            await crm.post("/orders", json={"a": 1}, query={"q": "1"})
        where = repr(AUTHS[auth](web))
    seen: list[str] = [caplog.text, repr(crm), where, *(repr(item.args) for item in caplog.records)]
    error: BaseException | None = caught.value
    while error is not None:
        seen += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    for text in seen:
        for secret in FORMS:
            assert secret not in text
    assert "crm" in str(caught.value) or "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("secret", ["", "abc\n", "a\r\nHost: x"])
def test_a_secret_that_no_header_can_carry_is_refused_unseen(secret: str) -> None:
    with pytest.raises(ConfigError, match="crm: its key or secret") as caught:
        HttpApi("crm", base_url="https://crm.example", auth=ApiKey(key=secret))
    assert secret.strip() == "" or secret not in str(caught.value)


@pytest.mark.parametrize("url", ["crm.example", "ftp://crm.example", "https://u:p@crm.example"])
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="crm: base_url: ") as caught:
        HttpApi("crm", base_url=url)
    assert "u:p" not in str(caught.value)
