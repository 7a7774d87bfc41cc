"""`coterie doctor`: what this machine has, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, plain, print_json, table
from coterie.errors import ConfigError, CoterieError
from coterie.pipeline.java import find_java

PACKAGES = ("numpy", "numba", "scipy", "pyarrow", "pandas", "pyspark", "msgspec", "uvloop")


def doctor_command(as_json: Json = False) -> None:
    """Check the installation.

    Python, packages, Java, the kernels, the traces folder.

    Examples:
      coterie doctor
    """
    checks = [_check(name, probe) for name, probe in _probes()]
    if as_json:
        print_json({"checks": checks, "healthy": all(check["ok"] for check in checks)})
    else:
        rows = [
            ["ok" if check["ok"] else "[red]problem[/]", str(check["name"]), plain(str(check["found"]))]
            for check in checks
        ]
        out.print(table("coterie doctor", ["", "part", "found"], rows, right_from=3))
    if not all(check["ok"] for check in checks):
        raise typer.Exit(1)


def _probes() -> list[tuple[str, Callable[[], str]]]:
    packages = [(name, lambda name=name: version(name)) for name in PACKAGES]
    return [
        ("python", lambda: f"{platform.python_version()} ({sys.executable})"),
        *packages,
        ("java", _java),
        ("kernels", _kernels),
        ("traces", _traces),
    ]


def _check(name: str, probe: Callable[[], str]) -> dict[str, object]:
    try:
        return {"name": name, "ok": True, "found": probe()}
    except PackageNotFoundError:
        return {"name": name, "ok": False, "found": "not installed; run 'make setup' or 'pip install coterie'"}
    except CoterieError as error:
        return {"name": name, "ok": False, "found": str(error)}


def _java() -> str:
    java = find_java()
    return f"{java.version} ({java.program}, found by {java.origin})"


def _kernels() -> str:
    from coterie.api.planning import price
    from coterie.workloads import make_workload

    workload = make_workload("uniform", {"nodes": 20, "topics": 5, "subscriptions": 2}, seed=1)
    bill = price("flooding", workload, against=None)
    return f"compiled; a test price of {bill.copies:g} copies came out"


def _traces() -> str:
    from coterie.workloads.traces import FOLDER_VARIABLE, traces_folder

    folder = traces_folder()
    named = os.environ.get(FOLDER_VARIABLE)
    if folder is None and named:
        raise ConfigError(FOLDER_VARIABLE, named, "a folder that exists")
    return str(folder) if folder else "none (set COTERIE_TRACES to use the real traces; nothing else needs them)"
