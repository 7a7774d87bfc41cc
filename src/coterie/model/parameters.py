"""Parameters from plain values, as a command line or a file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from coterie.errors import ConfigError

Chosen = TypeVar("Chosen", bound=msgspec.Struct)


def configure(kind: type[Chosen], settings: Mapping[str, object], owner: str) -> Chosen:
    """Strings are converted to what the field wants; ConfigError names the key and lists what exists."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    for key, value in settings.items():
        if key not in fields:
            known = ", ".join(sorted(fields)) or "it has no parameters"
            raise ConfigError(key, value, f"{owner} does not know it; known are: {known}")
        try:
            values[key] = msgspec.convert(value, fields[key].type, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(key, value, f"{owner}: {error}") from None
    return kind(**values)
