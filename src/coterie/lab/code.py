"""Which code a measurement runs: a digest of the function, of what it uses of the laboratory, and of all modules below.

Kept results are known by it, so that changed code measures again, and code that has nothing to do with it does not.
The laboratory's own modules hold runs beside claims and plots; of these only the definitions count that a run uses, so
that another tolerance, or another sentence, never costs a night; nor does another comment anywhere.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import coterie

ROOT = Path(coterie.__file__).parent
LAB = "lab"


class Definition(NamedTuple):
    """A definition of a file; the whole file without a name."""

    file: Path
    name: str = ""


def code_of(run: Callable[..., Any]) -> str:
    """The version of the package and a digest of the code behind this function."""
    return f"{coterie.__version__}-{_digest(Definition(Path(inspect.getsourcefile(run) or ''), run.__name__))}"


@cache
def _digest(definition: Definition) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for each in sorted(_reachable(definition)):
        digest.update(f"{each.file.name}\0{each.name}\0{_text(each)}\0".encode())
    return digest.hexdigest()


def _reachable(definition: Definition) -> set[Definition]:
    found = {definition}
    waiting = [definition]
    while waiting:
        fresh = set(_used(waiting.pop())) - found
        found |= fresh
        waiting += fresh
    return found


@cache
def _text(definition: Definition) -> str:
    """As Python reads it: another comment, or another line break, is the same code."""
    return "\n".join(ast.unparse(it) for it in _statements(definition))


@cache
def _used(definition: Definition) -> tuple[Definition, ...]:
    """What a definition uses of its own file, and what it or its file imports of ours, at the top or inside."""
    imports = [
        it for top in _statements(definition) for it in ast.walk(top) if isinstance(it, ast.Import | ast.ImportFrom)
    ]
    found = [each for it in imports for _, each in _imported(it)]
    if definition.name:
        names = {it.id for top in _statements(definition) for it in ast.walk(top) if isinstance(it, ast.Name)}
        tops = _parsed(definition.file).body
        brought = [pair for it in tops if isinstance(it, ast.Import | ast.ImportFrom) for pair in _imported(it)]
        found += [each for name, each in brought if name in names]
        found += [Definition(definition.file, name) for top in tops for name in _defined(top) if name in names]
    return tuple(found)


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


def _statements(definition: Definition) -> list[ast.stmt]:
    """All of the file, or those that define this name or add to it."""
    tops = _parsed(definition.file).body
    return [top for top in tops if definition.name in _defined(top)] if definition.name else tops


def _defined(top: ast.stmt) -> set[str]:
    if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {top.name}
    if isinstance(top, ast.Import | ast.ImportFrom):
        return set()
    targets = top.targets if isinstance(top, ast.Assign) else [top.target] if isinstance(top, ast.AnnAssign) else [top]
    return {it.id for target in targets for it in ast.walk(target) if isinstance(it, ast.Name)}


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Definition]]:
    """Names that an import brings, with the pieces of ours behind them."""
    if isinstance(statement, ast.Import):
        for each in statement.names:
            for file in _files_of(each.name):
                yield (each.asname or each.name).split(".")[0], Definition(file)
        return
    for each in statement.names:
        for file in _files_of(f"{statement.module}.{each.name}"):
            yield each.asname or each.name, Definition(file)
        for file in _files_of(statement.module or ""):
            is_lab = file.parent == ROOT / LAB and file.name != "__init__.py"
            plain = Definition(file, each.name if is_lab else "")
            for piece in _handed_on(file, each.name) or [plain]:
                yield each.asname or each.name, piece


def _handed_on(file: Path, name: str) -> list[Definition]:
    """What is behind a name that a package only hands on: the other names in its table of contents do not matter."""
    if file.name != "__init__.py":
        return []
    package = ".".join((ROOT.name, *file.parent.relative_to(ROOT).parts))
    return [
        piece
        for it in _parsed(file).body
        if isinstance(it, ast.ImportFrom) and it.module != package
        for brought, piece in (_imported(it) if any(name == (one.asname or one.name) for one in it.names) else ())
        if brought == name
    ]


def _files_of(module: str) -> Iterator[Path]:
    """Its file; nothing for names that are no modules, such as functions, or not ours.

    The package itself is the library's table of contents, which names everything; who imports it wants its place.
    """
    first, *rest = module.split(".")
    if first != ROOT.name or not rest:
        return
    place = ROOT.joinpath(*rest)
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            yield file
