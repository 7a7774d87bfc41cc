"""Which code a measurement runs: a digest of the module that defines it and of all our modules it imports.

Kept results are known by it, so that changed code measures again, and code that has nothing to do with it does not.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import coterie

ROOT = Path(coterie.__file__).parent


def code_of(run: Callable[..., Any]) -> str:
    """The version of the package and a digest of the code behind this function."""
    return f"{coterie.__version__}-{_digest(Path(inspect.getsourcefile(run) or ROOT / '__init__.py'))}"


@cache
def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for each in sorted(_reachable(path)):
        digest.update(each.name.encode() + b"\0" + each.read_bytes() + b"\0")
    return digest.hexdigest()


def _reachable(path: Path) -> set[Path]:
    found = {path}
    waiting = [path]
    while waiting:
        fresh = set(_imported(waiting.pop())) - found
        found |= fresh
        waiting += fresh
    return found


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Files of our modules that this one imports, at its top or inside a function."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return tuple(file for name in names if name.split(".")[0] == ROOT.name for file in _files_of(name))


def _files_of(module: str) -> Iterator[Path]:
    """Its file; nothing for names that are no modules, such as functions."""
    place = ROOT.joinpath(*module.split(".")[1:])
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            yield file
