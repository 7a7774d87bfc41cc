"""Versioned plans on disk: a version appears whole or not at all, and is never published twice.

A plan is a folder `plans/<version>` with the design, the dictionaries and a manifest that holds the predicted bill. It
is written beside its place and renamed; then CURRENT, a small file with the version's name, is replaced in one move.
Whoever is killed in between leaves either a plan that is complete but not yet current, which the next publication
takes up, or an unfinished folder, which it sweeps away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import InputError
from coterie.locking import lock
from coterie.plans.plan import DESIGN, FORMAT, FORMAT_VERSION, PartsInFolder, Plan, PlanFacts, digest_of
from coterie.writing import folder_replacing, sweep, write_whole

MANIFEST, CURRENT, FOLDER = "manifest.json", "CURRENT", "plans"
AGAIN = "plan again with this version: coterie plan"


class PlanStore:
    """The plans of one network, oldest first. `root` is the folder that holds `plans/`, or `plans/` itself."""

    def __init__(self, root: Path) -> None:
        self.root = root.parent if (root / CURRENT).is_file() else root
        self._plans = self.root / FOLDER

    @classmethod
    def at(cls, folder: Path) -> PlanStore:
        """For readers: the store in `folder`, or in the one folder below that holds plans (OUT of `coterie plan`)."""
        found = cls(folder)
        inside = found._below()
        return found if found.current() is not None or len(inside) != 1 else cls(inside[0])

    def _below(self) -> list[Path]:
        return sorted(path.parent.parent for path in self.root.glob(f"*/{FOLDER}/{CURRENT}"))

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

    def load(self, version: int | None = None) -> Plan:
        """A version, the current one by default."""
        chosen = self.chosen(version)
        facts = self.facts(chosen)
        return Plan(facts, PartsInFolder(self.folder(chosen), facts.design_digest))

    def chosen(self, version: int | None = None) -> int:
        """The version that is meant; InputError where there is none yet."""
        found = version if version is not None else self.current()
        if found is None:
            inside = ", ".join(map(str, self._below()))
            told = f"holds several: name one of {inside}" if inside else "holds no plan yet; `coterie plan` makes one"
            raise InputError(str(self.root), told)
        return found

    def facts(self, version: int) -> PlanFacts:
        """What a plan says of itself; InputError where it is missing, damaged or of another time."""
        path = self.folder(version) / MANIFEST
        table = self._table(path, version)
        found = table.get("format_version", 1) if table.get("format", FORMAT) == FORMAT else None
        if found != FORMAT_VERSION:
            raise InputError(
                str(path), f"is a plan of format {found}; this program reads format {FORMAT_VERSION}: {AGAIN}"
            )
        try:
            return msgspec.convert(table, PlanFacts)
        except msgspec.ValidationError as error:
            raise InputError(str(path), f"is damaged: {error}") from None

    def _table(self, path: Path, version: int) -> dict[str, Any]:
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

    def add(self, plan: Plan) -> int:
        """Publish a plan that is in memory."""
        return self.publish(plan.key, plan.facts, plan.write)

    def publish(self, key: str, facts: PlanFacts, write: Callable[[Path], None]) -> int:
        """Publish what `write(folder)` puts into a folder (the design at least), make it current, return its version.

        `key` names what was planned: publishing the same key again returns the version it already has.
        """
        self._plans.mkdir(parents=True, exist_ok=True)
        with self._locked():
            sweep(self._plans)
            known = self.find(key)
            if known is not None:
                self._point_to(known)
                return known
            version = max(self.versions(), default=0) + 1
            with folder_replacing(self.folder(version)) as unfinished:
                write(unfinished)
                told = msgspec.structs.replace(
                    facts, version=version, key=key, design_digest=digest_of(unfinished / DESIGN)
                )
                text = json.dumps(msgspec.to_builtins(told), indent=1, sort_keys=True)
                (unfinished / MANIFEST).write_text(text)
            self._point_to(version)
            return version

    def find(self, key: str) -> int | None:
        """The version that was published under this key, current or not."""
        keys = ((version, self._table(self.folder(version) / MANIFEST, version)["key"]) for version in self._newest())
        return next((version for version, known in keys if known == key), None)

    def _newest(self) -> list[int]:
        return self.versions()[::-1]

    def make_current(self, version: int) -> None:
        """Go back (or forward) to a version."""
        self.facts(version)
        with self._locked():
            self._point_to(version)

    def _point_to(self, version: int) -> None:
        write_whole(self._plans / CURRENT, f"{version}\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._plans / ".lock", "w") as file:
            lock(file, waits=True)
            yield
