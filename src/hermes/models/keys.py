"""The keys of providers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from hermes.errors import ConfigError


def checked_key(api_key: str | None) -> str:
    """A key without the white space around it; empty for none.

    Raises:
        ConfigError: No header can carry it; the message shows no part of it.
    """
    key = (api_key or "").strip()
    for place, char in enumerate(key, start=1):
        if not "!" <= char <= "~":
            raise ConfigError(
                f"API_KEY cannot be sent: character {place} of {len(key)} is no printable ASCII",
                hint="copy the key again, without quotes, spaces and line breaks",
            )
    return key


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets in each form that a server may give them back in, longest first.

    As they are, quoted for a URL in upper and lower case, with JSON's escapes, and in base64.
    """
    found: set[str] = set()
    for secret in filter(None, secrets):
        quoted = {quote(secret, safe=safe) for safe in ("", "/", "/+", ":", "=")}
        quoted |= {quote_plus(secret), quote_plus(secret, safe="/")}
        escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
        found |= {secret, escaped, escaped.replace("/", "\\/"), *quoted}
        found |= {_lower_escapes(text, secret) for text in quoted}
        found.add(b64encode(secret.encode()).decode("ascii"))
    return tuple(sorted(found, key=len, reverse=True))


def _lower_escapes(quoted: str, secret: str) -> str:
    for char in set(secret):
        if (escape := quote(char, safe="")) != char:
            quoted = quoted.replace(escape, escape.lower())
    return quoted
