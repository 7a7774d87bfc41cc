"""Reference pages made from the code: commands, the Python interface, configuration, systems, workloads, tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from coterie.cli.groups import WORDS


def cell(text: object) -> str:
    """Text that does not break out of a table's cell."""
    return " ".join(str(text).split()).replace("|", r"\|").replace("<", "&lt;")


def table(header: list[str], rows: list[list[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell(entry) for entry in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Help text without the command line's own markup."""
    return re.sub(r"\[/?(?:bold|dim|italic|red|green|cyan|yellow)[^\]]*\]", "", text)


# Commands


def commands() -> str:
    parts = [
        "# Commands",
        "As `coterie COMMAND --help` says it. Every command takes `--help`; errors are one sentence and an exit code "
        "(2: an option or a setting, 3: an input, 5: a peer, 6: a run that went wrong, 70: a defect of ours).",
    ]
    parts += [one_command(name, command) for name, command in all_commands()]
    return "\n\n".join(parts) + "\n"


def all_commands() -> Iterator[tuple[str, Any]]:
    main = import_module("coterie.cli.main")
    for name in main.COMMANDS:
        yield name, main.load_command(name)


def one_command(name: str, command: Any) -> str:
    arguments = [entry for entry in command.params if entry.param_type_name == "argument"]
    options = [entry for entry in command.params if entry.param_type_name == "option" and entry.name != "help"]
    usage = " ".join(["coterie", name, *(f"[{one.name.upper()}]" for one in arguments), "[OPTIONS]" if options else ""])
    parts = [f"## {name}", f"```text\n{usage.strip()}\n```", said(command.help or "")]
    if arguments:
        rows = [[f"`{one.name.upper()}`", plain(getattr(one, "help", None) or "")] for one in arguments]
        parts.append(table(["argument", "what it is"], rows))
    if options:
        parts.append(table(["option", "what it does", "default"], [option_row(one) for one in options]))
    return "\n\n".join(parts)


def said(help_text: str) -> str:
    """The help's paragraphs; the one with examples as code, a command a line."""
    parts = []
    for paragraph in plain(help_text.replace("\b", "").replace("\\[", "[")).split("\n\n"):
        found = examples_in(paragraph)
        parts.append("```sh\n" + "\n".join(found) + "\n```" if found else cell(paragraph))
    return "\n\n".join(part for part in parts if part)


def examples_in(paragraph: str) -> list[str]:
    """The commands of a paragraph `Examples:`, one a line, or over several with a backslash at their ends."""
    match = re.match(r"[\s\b]*Examples?:", paragraph)
    if match is None:
        return []
    text = paragraph[match.end() :].replace("\\[", "[")
    whole = re.sub(r"\\\n\s*", "\0", text)  # so that a line is a command
    return [line.strip().replace("\0", "\\\n    ") for line in whole.splitlines() if line.strip()]


def option_row(option: Any) -> list[object]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    kind = "" if getattr(option, "is_flag", False) else f" {option.metavar or kind_of(option)}"
    default = option.default
    shown = "" if default in (None, False, (), []) or callable(default) else f"`{default}`"
    return [names + kind, plain(option.help or ""), shown]


def kind_of(option: Any) -> str:
    """What it takes, in the words of the help: TEXT, NUMBER, PATH ..."""
    annotation = option.type_descriptor.annotation
    inner = (*getattr(annotation, "__args__", ()), annotation)[0]
    name = getattr(inner, "__name__", str(inner))
    return WORDS.get(name, name.upper())


# The Python interface


def python() -> str:
    """`coterie`'s public names with their signatures and docstrings: what can be called first, then what one gets."""
    package = import_module("coterie")
    values = {name: getattr(package, name) for name in package.__all__}
    functions = {name: value for name, value in values.items() if inspect.isfunction(value)}
    errors = {name: value for name, value in values.items() if is_error(value)}
    classes = {name: value for name, value in values.items() if name not in functions and name not in errors}
    parts = ["# Python", docstring(package)]
    parts += [
        f"## {name}\n\n```python\n{signature(name, one)}\n```\n\n{docstring(one)}" for name, one in functions.items()
    ]
    parts += [one_class(name, one) for name, one in classes.items()]
    rows: list[list[object]] = [[f"`{name}`", one.exit_code, docstring(one)] for name, one in errors.items()]
    parts += ["## Errors", table(["error", "exit code", "meaning"], rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def one_class(name: str, value: Any) -> str:
    """What it is and what it can do; members without a word said about them are not for everybody."""
    parts = [f"## {name}", docstring(value)]
    for key, one in vars(value).items():
        function = getattr(one, "__func__", one)
        if key.startswith("_") or not getattr(one, "__doc__", None):
            continue
        if isinstance(one, property | cached_property):
            parts.append(f"### {name}.{key}\n\n{docstring(one)}")
        elif inspect.isfunction(function):
            parts.append(f"### {name}.{key}\n\n```python\n{signature(key, function)}\n```\n\n{docstring(function)}")
    return "\n\n".join(part for part in parts if part)


class Unquoted(str):
    """An annotation that shows itself without quotes."""

    __repr__ = str.__str__


def signature(name: str, value: Any) -> str:
    """One parameter a line where one line would not do."""
    shape = inspect.signature(value)
    kept = [
        one.replace(annotation=Unquoted(one.annotation) if isinstance(one.annotation, str) else one.annotation)
        for one in shape.parameters.values()
        if one.name not in ("self", "cls")
    ]
    back = Unquoted(shape.return_annotation) if isinstance(shape.return_annotation, str) else shape.return_annotation
    text = f"{name}{inspect.Signature(kept, return_annotation=back)}"
    if len(text) <= 100:
        return text
    stars = [one.name for one in kept if one.kind is one.KEYWORD_ONLY][:1]
    lines = [f"    *,\n    {one}," if one.name in stars else f"    {one}," for one in kept]
    return f"{name}(\n" + "\n".join(lines) + f"\n) -> {back}"


def docstring(value: Any) -> str:
    """Text as it is; `>>>` examples become code."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return re.sub(r"((?:^>>> .*\n?(?:^(?!>>>|\n).+\n?)*)+)", r"```pycon\n\1\n```\n", text, flags=re.MULTILINE)


# Configuration


def configuration() -> str:
    """Example files hold every key with its default and what it means; they are the reference."""
    from coterie.model.prices import EXAMPLE_FILE

    root = Path(import_module("coterie").__file__ or "").parent
    node = next(iter(sorted(root.rglob("example.toml"))))
    fleet = next(iter(sorted(root.rglob("example_fleet.toml"))))
    return "\n\n".join(
        [
            "# Configuration",
            "## A node: `node.toml`",
            "`coterie node --example-config` prints it; `coterie up` writes one for each of its nodes.",
            f"```toml\n{node.read_text().strip()}\n```",
            "## A fleet: `fleet.toml`",
            "`coterie export --example-fleet` prints it.",
            f"```toml\n{fleet.read_text().strip()}\n```",
            "## Prices: `prices.toml`",
            "`coterie prices` prints it.",
            f"```toml\n{EXAMPLE_FILE.strip()}\n```",
        ]
    )


# Systems, workloads and tables


def systems() -> str:
    from coterie import list_systems

    says = "What `coterie systems` lists. Give parameters with `--set NAME=VALUE` or `--system NAME:key=value,...`."
    return catalogue("Systems", says, list_systems())


def workloads() -> str:
    from coterie import list_workloads

    says = "What `coterie workloads` lists. Give parameters with `--with NAME=VALUE`."
    return catalogue("Workloads", says, list_workloads())


def catalogue(title: str, says: str, listed: Mapping[str, Any]) -> str:
    parts = [f"# {title}", says]
    for entry in listed.values():
        rows: list[list[object]] = [[f"`{one.name}`", f"`{one.default}`", one.meaning] for one in entry.parameters]
        parts += [f"## {entry.name}", f"{entry.title}. {entry.paper}"]
        parts += [table(["parameter", "default", "meaning"], rows)] if rows else []
    return "\n\n".join(parts) + "\n"


KINDS = {"text": "text", "time": "time", "number": "number", "whole": "whole number", "texts": "list of texts"}


def tables() -> str:
    from coterie.pipeline.schemas import TABLES

    parts = [
        "# Input tables",
        "What `coterie compare` and `plan` read: `TABLE=PATH`, and `--map NAME=COLUMN` where your columns have other "
        "names. [The pipeline](../PIPELINE.md) says what each table does.",
    ]
    for one in TABLES.values():
        rows: list[list[object]] = [
            [f"`{field.name}`", KINDS.get(field.kind, field.kind), "yes" if field.required else "", range_of(field)]
            for field in one.fields
        ]
        parts += [f"## {one.name}", table(["column", "kind", "needed", "allowed"], rows)]
        if one.either:
            parts.append(f"A row needs one of {', '.join(f'`{name}`' for name in one.either)}.")
    return "\n\n".join(parts) + "\n"


def range_of(field: Any) -> str:
    words = []
    if field.mqtt:
        words.append(f"an MQTT {field.mqtt}")
    if field.lowest is not None and field.highest is not None:
        words.append(f"{field.lowest:g} to {field.highest:g}")
    elif field.lowest is not None:
        words.append(f"at least {field.lowest:g}")
    if field.past:
        words.append("not in the future")
    if field.default is not None:
        words.append(f"{field.default} if absent")
    return "; ".join(words)
