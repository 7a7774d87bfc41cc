"""What a run keeps of every system by itself: its design and its bill, made once for the same workloads and settings.

A task writes its piece, the bill last; so a run that was killed loses only the systems it was planning, and one more
system is the only one that is planned.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

import coterie
from coterie.pipeline.planning import OWN, PLACED, Candidate, Priced, Ways, design_file
from coterie.pipeline.storage import Folder, remove_all, write_whole
from coterie.writing import replacing

BILL = "bill.json"
VERSION = 1  # raise it when designs or bills change for the same workloads


@dataclass(frozen=True)
class Pieces:
    """All pieces of one pair of workloads, `key` being what names their content."""

    root: Folder
    key: str
    ways: Ways

    @property
    def home(self) -> Folder:
        return self.root / self.key

    def name(self, candidate: Candidate) -> str:
        """By everything that decides what comes out."""
        placer = self.ways.placer
        told = {
            "workloads": self.key,
            "parameters": msgspec.to_builtins(candidate.parameters),
            "wire": self.ways.wire,
            "seed": self.ways.seed,
            "limits": msgspec.to_builtins(self.ways.limits),
            "placer": _described(placer) if placer is not None and candidate.placement == PLACED else None,
            "version": [VERSION, coterie.__version__],
        }
        digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=6).hexdigest()
        placement = "" if candidate.placement == OWN else f"-{candidate.placement}"
        return f"{candidate.system.name}{placement}-{digest}"

    def folder(self, candidate: Candidate) -> Folder:
        return self.home / self.name(candidate)

    def kept(self, candidate: Candidate) -> Priced | None:
        path = self.folder(candidate) / BILL
        try:
            return msgspec.json.decode(path.read_bytes(), type=Priced)
        except (OSError, msgspec.DecodeError):
            return None

    def keep(self, candidate: Candidate, priced: Priced, out: Folder | None = None) -> None:
        """With the design that lies in `out`, where there is one; the bill last, because it says that all is there."""
        if out is not None:
            _copy(out, self.folder(candidate), candidate)
        write_whole(self.folder(candidate) / BILL, msgspec.json.encode(priced))

    def restore(self, candidate: Candidate, out: Folder) -> None:
        """The design of a piece that was kept, once more in `out`."""
        _copy(self.folder(candidate), out, candidate)

    def shared(self, placer: Candidate) -> Any:
        """What all systems placed by this one have in common."""
        return self.folder(replace(placer, placement=PLACED))

    def sweep(self) -> None:
        """Pieces of other workloads are of no use any more."""
        if not self.root.exists():
            return
        for old in self.root.iterdir():
            if old.name != self.key:
                remove_all(old)


def _copy(source: Folder, target: Folder, candidate: Candidate) -> None:
    name = design_file(Path(), candidate.system.name, candidate.placement).name
    if not (source / name).exists():
        return
    if isinstance(source, Path) and isinstance(target, Path):
        target.mkdir(parents=True, exist_ok=True)
        with replacing(target / name) as unfinished:
            try:
                os.link(source / name, unfinished)
            except OSError:  # another disk, or one that has no links
                shutil.copyfile(source / name, unfinished)
        return
    write_whole(target / name, (source / name).read_bytes())


def _described(candidate: Candidate) -> object:
    return {"system": candidate.system.name, "parameters": msgspec.to_builtins(candidate.parameters)}
