"""Parameters from plain values, as a command line or a file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from coterie.errors import ConfigError, in_words

Chosen = TypeVar("Chosen", bound=msgspec.Struct)


def configure(kind: type[Chosen], settings: Mapping[str, object], owner: str) -> Chosen:
    """Strings are converted to what the field wants; ConfigError names the key and lists what exists."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    for key, value in settings.items():
        if key not in fields:
            known = ", ".join(sorted(fields)) or "it has no parameters"
            raise ConfigError(f"parameter of {owner}", key, f"one of {known}")
        try:
            values[key] = msgspec.convert(value, fields[key].type, strict=False)
        except msgspec.ValidationError as error:
            wanted = in_words(str(error)).removeprefix("expected ").partition(", got")[0].partition(" - at")[0]
            raise ConfigError(key, value, f"{wanted} for {owner}") from None
    return kind(**values)


def settings_of(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """`name=value` words, as a repeatable option has them."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ConfigError(option, pair, "NAME=VALUE, for example --set leaves=8")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings
