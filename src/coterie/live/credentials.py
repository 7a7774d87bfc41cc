"""How what a client shows is checked: passwords, tokens (JWT) and certificates. Takes its time: off the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt

from coterie.broker.credentials import Check, TokenRule
from coterie.live.passwords import check_password
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling

WRONG = Ruling(Reason.BAD_USER_NAME_OR_PASSWORD)


def _token(rule: TokenRule, token: bytes, user: str) -> Ruling:
    """Success if nothing about a token is wrong and it names this user; it holds until the token expires."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            rule.key,
            algorithms=list(rule.algorithms),
            audience=rule.audience or None,
            issuer=rule.issuer or None,
            options={"require": ["exp", rule.user_claim], "verify_aud": bool(rule.audience)},
        )
    except (jwt.PyJWTError, ValueError, TypeError):
        return WRONG
    if not user or claims[rule.user_claim] != user:
        return WRONG
    return Ruling(user=user, until_s=float(claims["exp"]))


def answer(check: Check) -> Ruling:
    if check.tokens is not None and check.secret.count(b".") == 2:
        return _token(check.tokens, check.secret, check.user)
    # An unknown user costs as much as a known one, so that names cannot be found out by the clock.
    try:
        is_right = check_password(check.secret, check.stored)
    except (ValueError, MemoryError):
        return WRONG
    return Ruling(user=check.user) if is_right and check.is_known else WRONG


def certificate_user(certificate: Mapping[str, Any] | None) -> str:
    """The common name of the subject of a certificate that TLS has checked; empty if it has none, or several."""
    pairs = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    names = [value for name, value in pairs if name == "commonName"]
    return str(names[0]) if len(names) == 1 else ""
