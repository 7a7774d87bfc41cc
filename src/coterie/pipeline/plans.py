"""Versioned plans on disk: a version appears whole or not at all, and is never published twice.

A plan is a folder `plans/<version>` with the design, the dictionaries and a manifest that holds the predicted bill. It
is written beside its place and renamed; then CURRENT, a small file with the version's name, is replaced in one move.
Whoever is killed in between leaves either a plan that is complete but not yet current, which the next publication
takes up, or an unfinished folder, which it sweeps away.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.model import Design
from coterie.model.store import load_design

DESIGN, MANIFEST, CURRENT = "design.npz", "manifest.json", "CURRENT"


class PlanStore:
    """The plans of one network, oldest first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._plans = root / "plans"

    def versions(self) -> list[int]:
        """Versions that are complete, current or not."""
        if not self._plans.exists():
            return []
        return sorted(int(entry.name) for entry in self._plans.iterdir() if entry.name.isdigit())

    def current(self) -> int | None:
        try:
            return int((self._plans / CURRENT).read_text())
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise InputError(str(self.root), "is not a folder of plans") from None
        except ValueError:
            raise InputError(str(self._plans / CURRENT), "does not hold a version number") from None

    def folder(self, version: int) -> Path:
        return self._plans / f"{version:06d}"

    def manifest(self, version: int) -> dict[str, Any]:
        path = self.folder(version) / MANIFEST
        try:
            read: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            known = ", ".join(map(str, self.versions())) or "none"
            raise InputError(str(path), f"there is no plan {version}; there are: {known}") from None
        except NotADirectoryError:
            raise InputError(str(self.root), "is not a folder of plans") from None
        except ValueError:
            raise InputError(str(path), "is damaged: it is not JSON") from None
        if not isinstance(read, dict) or not {"key", "design_digest"} <= set(read):
            raise InputError(str(path), "is damaged: it has no key and no digest of a design")
        return read

    def design(self, version: int) -> Design:
        """The design of a version; InputError if the file is not the one that was published."""
        path = self.folder(version) / DESIGN
        manifest = self.manifest(version)
        if _digest(path) != manifest["design_digest"]:
            raise InputError(str(path), f"is not the design that plan {version} was published with")
        return load_design(path)

    def publish(self, key: str, facts: dict[str, Any], write: Callable[[Path], None]) -> int:
        """Publish what `write(folder)` puts into a folder (the design at least), make it current, return its version.

        `key` names what was planned: publishing the same key again returns the version it already has.
        """
        self._plans.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._sweep()
            known = self.find(key)
            if known is not None:
                self._point_to(known)
                return known
            version = max(self.versions(), default=0) + 1
            unfinished = self._plans / f".unfinished-{version:06d}"
            unfinished.mkdir()
            write(unfinished)
            manifest = {**facts, "version": version, "key": key, "design_digest": _digest(unfinished / DESIGN)}
            for path in sorted(unfinished.iterdir()):
                _sync(path)
            _write_durably(unfinished / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
            unfinished.rename(self.folder(version))
            self._point_to(version)
            return version

    def find(self, key: str) -> int | None:
        """The version that was published under this key, current or not."""
        return next((version for version in reversed(self.versions()) if self.manifest(version)["key"] == key), None)

    def make_current(self, version: int) -> None:
        """Go back (or forward) to a version."""
        self.manifest(version)
        with self._locked():
            self._point_to(version)

    def _point_to(self, version: int) -> None:
        beside = self._plans / f".{CURRENT}"
        _write_durably(beside, f"{version}\n")
        beside.replace(self._plans / CURRENT)

    def _sweep(self) -> None:
        for entry in self._plans.glob(".unfinished-*"):
            shutil.rmtree(entry)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._plans / ".lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _digest(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise InputError(str(path), "is missing") from None


def _sync(path: Path) -> None:
    """What a version is made of must be on disk before its name is."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _write_durably(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
