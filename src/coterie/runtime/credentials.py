"""What a client shows to prove who it is: a password, a token (JWT) or a certificate, and how each is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from coterie.mqtt.broker import Verdict
from coterie.mqtt.reasons import Reason
from coterie.runtime.passwords import check_password

WRONG = Verdict(Reason.BAD_USER_NAME_OR_PASSWORD)
NO_ONE = "scrypt$16384$8$1$" + "A" * 22 + "==$" + "A" * 43 + "="  # nobody's password: costs as much as ours do


@dataclass(frozen=True)
class TokenRule:
    """How tokens must be made."""

    key: str
    algorithms: tuple[str, ...]
    user_claim: str
    audience: str
    issuer: str

    def verdict(self, token: bytes, user: str) -> Verdict:
        """Success if nothing about a token is wrong and it names this user; it holds until the token expires."""
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self.key,
                algorithms=list(self.algorithms),
                audience=self.audience or None,
                issuer=self.issuer or None,
                options={"require": ["exp", self.user_claim], "verify_aud": bool(self.audience)},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return WRONG
        if not user or claims[self.user_claim] != user:
            return WRONG
        return Verdict(user=user, until_s=float(claims["exp"]))


@dataclass(frozen=True)
class Check:
    """A question that takes its time; `stored` is empty where only a token will do. Run it off the loop."""

    user: str
    secret: bytes
    stored: str = NO_ONE
    is_known: bool = False
    tokens: TokenRule | None = None

    def run(self) -> Verdict:
        if self.tokens is not None and self.secret.count(b".") == 2:
            return self.tokens.verdict(self.secret, self.user)
        # An unknown user costs as much as a known one, so that names cannot be found out by the clock.
        try:
            is_right = check_password(self.secret, self.stored)
        except (ValueError, MemoryError):
            return WRONG
        return Verdict(user=self.user) if is_right and self.is_known else WRONG


def certificate_user(certificate: Mapping[str, Any] | None) -> str:
    """The common name of the subject of a certificate that TLS has checked; empty if it has none, or several."""
    pairs = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    names = [value for name, value in pairs if name == "commonName"]
    return str(names[0]) if len(names) == 1 else ""
