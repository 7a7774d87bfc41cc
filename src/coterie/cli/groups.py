"""Options that belong together are one thing: a dataclass whose fields are options, and what they mean its methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

WORDS = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}


def worded(params: list[Any]) -> list[Any]:
    """What options take, in a word that is no type of Python's; switches take nothing."""
    for param in params:
        has_word = param.metavar is not None and param.param_type_name == "option"
        if not has_word and hasattr(param, "display_type_rich"):  # older versions of typer use such words
            param.display_type_rich = partial(_word, param)
    return params


def _word(param: Any, ctx: Any) -> str:
    if getattr(param, "is_flag", False):
        return ""
    said: str = param.display_type(ctx).strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
    return WORDS.get(said, said)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command as a terminal sees it: in place of a group stand its options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: dict[str, Parameter] = {}
    for name, one in signature(command).parameters.items():
        shown = _options(groups[name]) if name in groups else [one.replace(annotation=hints[name])]
        options |= {each.name: each.replace(kind=Parameter.KEYWORD_ONLY) for each in shown}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: kind(**{one.name: given.pop(one.name) for one in fields(kind)}) for name, kind in groups.items()}
        command(**given, **made)

    run.__signature__ = Signature(list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: one.annotation for name, one in options.items()}
    return run


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    defaults = {one.name: Parameter.empty if one.default is MISSING else one.default for one in fields(group)}
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]
