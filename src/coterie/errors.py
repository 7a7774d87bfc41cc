"""Every error a user, an operator or a peer can cause; each says whose fault it is and what to do."""

from __future__ import annotations

import re

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def expected(key: str, value: object, allowed: str, do: str = "") -> str:
    """The one sentence in which wrong settings are told: X: expected ..., got ...; do ..."""
    got = "nothing" if value is None or value == "" else repr(value)
    return f"{key}: expected {allowed}, got {got}" + (f"; {do}" if do else "")


def in_words(said: str) -> str:
    """What the reader of files says, without its names of kinds: Expected `int`, got `str` is of numbers and text."""
    told = re.sub("`([^`]*)`", lambda found: " or ".join(KINDS.get(one, one) for one in found[1].split(" | ")), said)
    return told[:1].lower() + told[1:]


class CoterieError(Exception):
    """Base of all errors that are meant to be read by a person; `exit_code` is what the command returns."""

    exit_code = 1


class ConfigError(CoterieError):
    """The operator's: a key, what it was set to, what it may be, and, where it helps, what to do."""

    exit_code = 2

    def __init__(self, key: str, value: object, allowed: str, do: str = "") -> None:
        super().__init__(expected(key, value, allowed, do))
        self.key = key
        self.value = value
        self.allowed = allowed
        self.do = do


class InputError(CoterieError):
    """The data's: which file, which line (if it has lines), and why it cannot be used."""

    exit_code = 3

    def __init__(self, source: str, reason: str, line: int | None = None) -> None:
        where = source if line is None else f"{source}, line {line}"
        super().__init__(f"{where}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason


class LocalProtocolError(CoterieError):
    """Ours: a codec or session was asked for something its protocol forbids."""

    exit_code = 4


class RemoteProtocolError(CoterieError):
    """The peer's: it sent something its protocol forbids. Drop the link, keep the node."""

    exit_code = 5

    def __init__(self, reason: str, peer: str | None = None) -> None:
        super().__init__(reason if peer is None else f"{peer}: {reason}")
        self.reason = reason
        self.peer = peer


class RunError(CoterieError):
    """A run that went wrong: a check failed or a part of it died; the message holds the command that repeats it."""

    exit_code = 6
