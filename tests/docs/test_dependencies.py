"""The bill of materials and the page of reasons are complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

from tests.docs.pages import DOCS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_dependency_has_its_reason_on_the_page():
    page = (DOCS / "dependencies.md").read_text()
    explained = re.findall(r"^\| ([a-z0-9-]+) \| \S", page, re.MULTILINE)
    declared = sorted({re.match(r"[A-Za-z0-9-]+", one)[0] for one in PROJECT["dependencies"]})
    assert sorted(set(explained) - {"package"}) == declared


def test_the_bill_of_materials_holds_what_is_pinned():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "sbom.py"], capture_output=True, text=True, check=True, timeout=60
    )
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", PROJECT["version"])
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert [one["name"] for one in bill["components"]] == pinned
    assert all(one["hashes"] and one["version"] for one in bill["components"])
    assert sum("licenses" in one for one in bill["components"]) > len(pinned) / 2
