"""What stands in a decorator's parentheses, and what is refused there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from hermes import NOT_DONE, register_tool, tool
from hermes.errors import ToolDefinitionError
from hermes.tools import Tool


def look(key: str, arguments: dict[str, object]) -> object:
    return NOT_DONE


def made(**options: object) -> Tool:
    @tool(**options)  # pyright: ignore[reportArgumentType]  # wrong ones too
    async def pay(order_id: str, amount: int = 1) -> str:
        """Pay."""
        return "paid"

    return pay


class TestEffect:
    def test_reconcile_implies_its_effect(self) -> None:
        pay = made(reconcile=look)
        assert (pay.effect, pay.reconcile) == ("reconcile", look)

    def test_without_either_a_tool_is_unsafe(self) -> None:
        assert made().effect == "unsafe"

    def test_both_may_be_said(self) -> None:
        assert made(effect="reconcile", reconcile=look).effect == "reconcile"

    @pytest.mark.parametrize("effect", ["read", "idempotent", "reconcile", "unsafe"])
    def test_these_are_offered(self, effect: str) -> None:
        more = {"reconcile": look} if effect == "reconcile" else {}
        assert made(effect=effect, **more).effect == effect


class TestKey:
    @pytest.mark.parametrize(
        ("key", "arguments", "value"),
        [
            ("{order_id}", {"order_id": "A1"}, "A1"),
            ("{order_id}/{amount}", {"order_id": "A1", "amount": 5}, "A1/5"),
            ("{amount}", {"order_id": "A1"}, "null"),
            ("once", {"order_id": "A1"}, "once"),
            ("{{{order_id}}}", {"order_id": "A1"}, "{A1}"),
        ],
    )
    def test_a_template_takes_the_arguments_in(
        self, key: str, arguments: Mapping[str, object], value: str
    ) -> None:
        business_key = made(key=key).key
        assert business_key is not None
        assert business_key(arguments) == value

    def test_a_function_is_taken_as_it_is(self) -> None:
        def key(arguments: Mapping[str, object]) -> str:
            return str(arguments["order_id"])

        assert made(key=key, key_scope="global").key is key

    def test_a_schema_by_hand_has_one_too(self) -> None:
        schema = {"properties": {"order_id": {"type": "string"}}}

        @register_tool("pay", "Pay.", schema, key="{order_id}", key_scope="global")
        async def pay(order_id: str) -> str:
            return "paid"

        assert pay.key is not None
        assert (pay.key({"order_id": "A1"}), pay.key_scope) == ("A1", "global")


class TestFingerprint:
    @pytest.mark.parametrize(
        "options",
        [
            {"key": "{order_id}"},
            {"key": "{order_id}/{amount}"},
            {"key": "{order_id}", "key_scope": "global"},
            {"requires_approval": True},
            {"effect": "read"},
            {"reconcile": look},
        ],
        ids=["key", "longer key", "global key", "approval", "effect", "reconcile"],
    )
    def test_it_differs_where_a_resume_has_to_notice(self, options: dict[str, object]) -> None:
        others = [made(), made(key="{amount}")]
        assert made(**options).fingerprint not in {other.fingerprint for other in others}

    @pytest.mark.parametrize("options", [{"timeout_s": 5}, {"group": "g"}])
    def test_it_is_the_same_where_it_does_not_matter(self, options: dict[str, object]) -> None:
        assert made(**options).fingerprint == made().fingerprint


def takes_one(key: str) -> object:
    return key


def takes_none() -> str:
    return ""


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "effect of Hermes": (lambda: made(effect="internal"), "is none of read, idempotent, reconcile"),
    "reconcile without a function": (
        lambda: made(effect="reconcile"),
        "effect 'reconcile' needs reconcile=",
    ),
    "a function without the effect": (
        lambda: made(effect="unsafe", reconcile=look),
        "reconcile= is for the effect 'reconcile', not 'unsafe'",
    ),
    "a function of one argument": (
        lambda: made(reconcile=takes_one),
        r"reconcile= must be a function that takes \(key, arguments\)",
    ),
    "unknown parameter": (
        lambda: made(key="{order}"),
        "key='{order}' names 'order', which is no parameter",
    ),
    "open brace": (lambda: made(key="{order_id"), "is no template"),
    "attribute": (lambda: made(key="{order_id.x}"), "names 'order_id.x'"),
    "format": (lambda: made(key="{amount:>5}"), "may only hold plain names"),
    "place": (lambda: made(key="{}"), "names '', which is no parameter"),
    "empty key": (lambda: made(key=" "), "key= is empty"),
    "key without an argument": (
        lambda: made(key=takes_none),
        r"key= must be a function that takes \(arguments\)",
    ),
    "scope": (lambda: made(key_scope="session"), "key_scope 'session' is none of root, global"),
    "run_in": (lambda: made(run_in="fibre"), "run_in 'fibre' is none of thread, process"),
}


@pytest.mark.parametrize(("make", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_when_the_tool_is_made(
    make: Callable[[], object], text: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=text) as caught:
        make()
    assert "'pay'" in str(caught.value)


def test_a_near_miss_in_a_template_is_named() -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        made(key="{order}")
    assert "order_id" in caught.value.hint
