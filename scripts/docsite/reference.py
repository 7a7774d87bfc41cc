"""Reference pages made from the code: commands, the Python interface, configuration, systems, workloads, tables."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec


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
    import typer

    main = import_module("coterie.cli.main")
    if not main.app.registered_commands:
        main.load_commands(())
    group: Any = typer.main.get_command(main.app)
    yield from group.commands.items()


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
    for paragraph in plain(help_text).replace("\b", "").split("\n\n"):
        found = examples_in(paragraph)
        parts.append("```sh\n" + "\n".join(found) + "\n```" if found else cell(paragraph))
    return "\n\n".join(part for part in parts if part)


def examples_in(paragraph: str) -> list[str]:
    """The commands of a paragraph `Example: coterie ...`: a line each, or each in quotes."""
    match = re.match(r"\s*Examples?:", paragraph)
    if match is None:
        return []
    text = paragraph[match.end() :].strip()
    quoted = re.findall(r"'(coterie[^']*)'", text)
    return quoted or [line.strip() for line in re.split(r"\n|; then ", text) if line.strip().startswith("coterie")]


def option_row(option: Any) -> list[object]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    kind = "" if getattr(option, "is_flag", False) else f" {option.metavar or kind_of(option)}"
    default = option.default
    shown = "" if default in (None, False, (), []) or callable(default) else f"`{default}`"
    return [names + kind, plain(option.help or ""), shown]


def kind_of(option: Any) -> str:
    """What it takes, in the words of the help: TEXT, INTEGER, PATH ..."""
    annotation = option.type_descriptor.annotation
    inner = (*getattr(annotation, "__args__", ()), annotation)[0]
    name = getattr(inner, "__name__", str(inner))
    return {"str": "TEXT", "int": "INTEGER", "float": "NUMBER"}.get(name, name.upper())


# The Python interface


def python() -> str:
    """`coterie`'s public names with their signatures and docstrings."""
    package = import_module("coterie")
    names = [name for name in getattr(package, "__all__", ()) if not name.startswith("_")]
    if not names:
        return "# Python\n\nThere is no public interface yet beside the command.\n"
    parts = ["# Python", "```python\nimport coterie as ct\n```", inspect.cleandoc(package.__doc__ or "")]
    parts += [public_name(name, getattr(package, name)) for name in names]
    return "\n\n".join(parts) + "\n"


def public_name(name: str, value: Any) -> str:
    if inspect.ismodule(value):
        return f"## {name}\n\n{docstring(value)}"
    if not callable(value):
        return f"## {name}\n\n```python\n{name} = {value!r}\n```"
    parts = [f"## {name}", f"```python\n{signature(name, value)}\n```", docstring(value)]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        parts += [method(name, key, one) for key, one in vars(value).items() if is_shown(key, one)]
    return "\n\n".join(part for part in parts if part)


def is_shown(name: str, value: Any) -> bool:
    if name.startswith("_"):
        return False
    return isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)


def method(owner: str, name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"### {owner}.{name}\n\n{docstring(value)}"
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    return f"### {owner}.{name}\n\n```python\n{signature(f'{owner}.{name}', function)}\n```\n\n{docstring(function)}"


def signature(name: str, value: Any) -> str:
    try:
        shape = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}(...)"
    kept = [one for one in shape.parameters.values() if one.name not in ("self", "cls")]
    text = f"{name}{shape.replace(parameters=kept)}".replace("'", "")
    return text if len(text) <= 100 else text.replace("(", "(\n    ", 1).replace(", ", ",\n    ")


def docstring(value: Any) -> str:
    """Text as it is; indented or `>>>` blocks become code."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return re.sub(r"((?:^>>> .*\n?(?:^(?!>>>|\n).*\n?)*)+)", r"```pycon\n\1\n```\n", text, flags=re.MULTILINE)


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
    from coterie.systems import SYSTEMS

    says = "What `coterie systems` lists. Give parameters with `--set NAME=VALUE` or `--system NAME:key=value,...`."
    return registry_page("Systems", says, list(SYSTEMS.values()))


def workloads() -> str:
    from coterie.workloads import WORKLOADS

    says = "What `coterie workloads` lists. Give parameters with `--with NAME=VALUE`."
    return registry_page("Workloads", says, list(WORKLOADS.values()))


def registry_page(title: str, says: str, entries: list[Any]) -> str:
    parts = [f"# {title}", says]
    for entry in entries:
        meanings = meanings_of(entry.parameters)
        fields = msgspec.structs.fields(entry.parameters)
        rows: list[list[object]] = [
            [f"`{one.name}`", f"`{default_of(one)}`", meanings.get(one.name, "")] for one in fields
        ]
        parts += [f"## {entry.name}", f"{entry.title}. {entry.paper}", inspect.cleandoc(entry.parameters.__doc__ or "")]
        parts += [table(["parameter", "default", "meaning"], rows)] if rows else []
    return "\n\n".join(part for part in parts if part) + "\n"


def default_of(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return str(field.default)
    return str(field.default_factory()) if field.default_factory is not msgspec.NODEFAULT else "needed"


def meanings_of(parameters: type) -> dict[str, str]:
    """The comment beside each field, of the class and the ones it extends."""
    found: dict[str, str] = {}
    for owner in reversed(parameters.__mro__):
        if owner.__module__.startswith("coterie"):
            try:
                source = inspect.getsource(owner)
            except OSError:
                continue
            found |= {name: said for name, said in comments_in(source).items() if said}
    return found


def comments_in(source: str) -> dict[str, str]:
    """Field -> its trailing comment, or the docstring-like text below it."""
    beside = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (owner,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    found = {}
    for node, after in zip(owner.body, [*owner.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and str(after.value.value)
            found[node.target.id] = beside.get(node.end_lineno or 0) or (below or "")
    return found


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
