"""A bill of materials (CycloneDX 1.6, JSON) of what `pip install coterie` brings, from the lock file.

Run `python scripts/sbom.py > sbom.cdx.json`. Versions and hashes are those of requirements.lock; licences are what the
installed packages say of themselves, where they are installed; what a package is for is what docs/dependencies.md says.
`--list` prints names, versions and reasons as text, for people.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
HASHED = re.compile(r"--hash=sha256:([0-9a-f]{64})")


REASONS = dict(re.findall(r"^\| ([\w-]+) \| (.+) \|$", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE))


def locked(path: Path) -> list[tuple[str, str, list[str]]]:
    """Name, version and hashes of everything that a lock file pins."""
    found: list[tuple[str, str, list[str]]] = []
    for line in path.read_text().splitlines():
        if pin := PINNED.match(line):
            found.append((pin[1], pin[2], []))
        found[-1][2].extend(HASHED.findall(line)) if found else None
    return found


def licence_of(name: str) -> str:
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return ""
    told = about.get("License-Expression") or ""
    named = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or () if one.startswith("License :: ")]
    return told or ", ".join(named) or (about.get("License") or "").partition("\n")[0]


def component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    licence, reason = licence_of(name), REASONS.get(name.lower(), "")
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
        "hashes": [{"alg": "SHA-256", "content": one} for one in hashes],
        **({"description": reason} if reason else {}),
        **({"licenses": [{"license": {"name": licence}}]} if licence else {}),
    }


def bill() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [component(*one) for one in locked(ROOT / "requirements.lock")],
    }


def listed() -> str:
    rows = locked(ROOT / "requirements.lock")
    return "\n".join(
        f"{name:22} {version:14} {REASONS.get(name.lower(), 'comes with another')}" for name, version, _ in rows
    )


if __name__ == "__main__":
    if "--list" in sys.argv:
        print(listed())
    else:
        json.dump(bill(), sys.stdout, indent=1)
