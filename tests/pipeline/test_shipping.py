"""The package that ships itself: made once, and unpacked into a place where compiled kernels stay."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from coterie.pipeline import shipping


def test_the_package_zip_holds_our_modules_and_is_made_once(tmp_path):
    first = shipping.package_zip(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert shipping.package_zip(tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    names = zipfile.ZipFile(first).namelist()
    assert "unpacked/coterie/pipeline/session.py" in names
    assert "unpacked/coterie/pipeline/log4j2.properties" in names
    assert not [name for name in names if name.endswith((".pyc", ".nbi"))]


def test_what_is_imported_from_the_zip_lies_where_it_stays(tmp_path):
    archive = shipping.package_zip(tmp_path)
    script = "import coterie.errors, coterie; print(coterie.errors.__file__, coterie.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(archive), "COTERIE_CACHE": str(tmp_path / "cache")}
    found = {
        subprocess.run(
            [sys.executable, "-S", "-c", script], env=environment, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    }
    (told,) = found
    path, version = told.split()
    assert Path(path).is_relative_to(tmp_path / "cache")
    assert version
    assert len(list((tmp_path / "cache").iterdir())) == 1
