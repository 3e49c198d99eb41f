"""Words of a closed set: which member a text means, whatever its case, script or punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hermes.core.effects import Effect
from hermes.core.json import as_list, as_object
from hermes.tools.schema import ALIASES, Schema

from .exact import member_text, narrow

# Never a sign that could deny, compare or count: `!paid` is not `paid`.
_QUOTES = "\"'`“”‘’„＂＇「」『』《》"
_BRACKETS = ("()", "（）", "[]", "【】")
_STOPS = ",.;:，。；：、…"
_SEPARATORS = re.compile(r"[\s_‐‑–-]+")
_COMMA = re.compile(r"[,，、;；]")
_NOTE = r"\s*[\"'`”’]?\s*(?:[(（]([^()（）]{1,40})[)）]|[=:：]\s*([^\s,，;；、。()（）]{1,20}))"
_ASCII_LETTER = re.compile(r"[A-Za-z]")


def fold(text: str) -> str:
    """A text for comparison: no case, no width, no accent of the Turkish i, one kind of separator.

    The same under every locale.
    """
    plain = narrow(text).casefold().replace("\u0307", "").replace("ı", "i")
    return _SEPARATORS.sub("_", plain.strip())


def meant(
    members: Sequence[object], text: str, node: Schema, *, effect: Effect
) -> tuple[object, str] | None:
    """The one member that a text means, and the rule that says so; None if none or several.

    Args:
        members: All that is allowed.
        text: What was written, or the spelling of a number.
        node: The schema, for the aliases declared in it and, for `read` tools, the words in
            another script that its description gives beside a member.
        effect: For `read` tools, what follows a comma may be dropped.
    """
    spelled = [(member, member_text(member)) for member in members]
    trimmed = text.strip()
    exact = [member for member, written in spelled if written == trimmed]
    if len(exact) == 1:
        return exact[0], "enum_match"
    table = _Table(spelled, node, effect)
    for candidate in (trimmed, table.bare(text)):
        if (found := table.find(candidate)) is not None:
            return found
    if effect != "read":
        return None
    first, *rest = _COMMA.split(trimmed)
    has_letter = any(map(str.isalpha, first))  # "1,000" is no 1
    if not rest or not has_letter or any(table.is_known(part) for part in rest):
        return None
    found = table.find(table.bare(first))
    return None if found is None else (found[0], "before_comma")


class _Table:
    """Members by their folded spellings and by their folded aliases."""

    def __init__(
        self, spelled: Sequence[tuple[object, str | None]], node: Schema, effect: Effect
    ) -> None:
        self._has_marks = any(
            written is not None and not any(map(str.isalnum, written)) for _, written in spelled
        )
        self._members: dict[str, list[object]] = {}
        for member, written in spelled:
            if written is not None:
                self._members.setdefault(fold(written), []).append(member)
        self._aliases: dict[str, list[object]] = {}
        given = declared(node)
        for member, written in spelled:
            if written is None:
                continue
            words = list(given.get(written, ()))
            if effect == "read" and isinstance(node.get("description"), str):
                words += _described(written, str(node["description"]))
            for word in dict.fromkeys(map(fold, words)):
                self._aliases.setdefault(word, []).append(member)

    def bare(self, text: str) -> str:
        """A text without stray marks, unless a mark may itself be a member."""
        return text.strip() if self._has_marks else bare(text)

    def find(self, text: str) -> tuple[object, str] | None:
        """The one member of this spelling, or of this alias."""
        folded = fold(text)
        if not folded:
            return None
        for table, rule in ((self._members, "enum_match"), (self._aliases, "alias")):
            if (found := table.get(folded)) is not None:
                return (found[0], rule) if len(found) == 1 else None
        return None

    def is_known(self, text: str) -> bool:
        """Whether a text names a member, or several."""
        folded = fold(self.bare(text))
        return folded in self._members or folded in self._aliases


def bare(text: str) -> str:
    """A text without quotes, brackets around the whole of it, and a sentence's end marks."""
    before = ""
    while text != before:
        before = text
        text = text.strip().strip(_QUOTES).rstrip(_STOPS)
        if text[:1] + text[-1:] in _BRACKETS:
            text = text[1:-1]
    return text


def declared(node: Schema) -> Mapping[str, Sequence[str]]:
    """The aliases that a schema declares: by member, other words for it."""
    table = as_object(node.get(ALIASES)) or {}
    return {name: [str(word) for word in as_list(words)] for name, words in table.items()}


def _described(member: str, description: str) -> Iterable[str]:
    """Words in another script right behind a member: `high (高, 紧急)`, `high：高`."""
    for match in re.finditer(rf"(?<![\w-]){re.escape(member)}(?![\w-]){_NOTE}", description):
        for word in _COMMA.split(match[1] or match[2]):
            if not _ASCII_LETTER.search(word):
                yield bare(word)
