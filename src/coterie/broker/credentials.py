"""What a client shows to prove who it is, as a question for whoever can answer it: off the loop, with a clock."""

from __future__ import annotations

from dataclasses import dataclass

NO_ONE = "scrypt$16384$8$1$" + "A" * 22 + "==$" + "A" * 43 + "="  # nobody's password: costs as much as ours do


@dataclass(frozen=True)
class TokenRule:
    """How tokens must be made."""

    key: str
    algorithms: tuple[str, ...]
    user_claim: str
    audience: str
    issuer: str


@dataclass(frozen=True)
class Check:
    """Is this user's secret the stored one, or a token that names it? An unknown user is to cost as much as a known."""

    user: str
    secret: bytes
    stored: str = NO_ONE
    is_known: bool = False
    tokens: TokenRule | None = None
