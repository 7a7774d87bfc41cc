"""Our own package for executors that do not have it: a zip that unpacks itself into a place that stays.

Compiled kernels are kept beside their sources, and sources inside a zip have no place. So what is imported from the zip
is a stub, which unpacks the package once into a folder named by its content, and becomes it. From the second job on a
machine nothing is compiled there.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import coterie
from coterie.pipeline.java import cache_dir
from coterie.writing import replacing

UNPACKED = "unpacked"
STUB = '''"""Unpacks the package once on this machine and becomes it."""
import os, shutil, tempfile, zipfile


def _home():
    root = os.environ.get("COTERIE_CACHE") or os.path.join(tempfile.gettempdir(), "coterie-%d" % os.getuid())
    os.makedirs(root, mode=0o700, exist_ok=True)
    if os.stat(root).st_uid != os.getuid():  # not ours: who made it could put anything there
        root = tempfile.mkdtemp(prefix="coterie-")
    home = os.path.join(root, "DIGEST")
    if not os.path.isdir(home):
        beside = "%s.%d" % (home, os.getpid())
        with zipfile.ZipFile(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) as archive:
            archive.extractall(beside, [name for name in archive.namelist() if name.startswith("unpacked/")])
        try:
            os.rename(beside, home)
        except OSError:  # somebody else was faster
            shutil.rmtree(beside, ignore_errors=True)
    return os.path.join(home, "unpacked", "coterie")


__path__ = [_home()]
__file__ = os.path.join(__path__[0], "__init__.py")
with open(__file__, encoding="utf-8") as _file:
    exec(compile(_file.read(), __file__, "exec"))
'''


def package_zip(folder: Path | None = None) -> Path:
    """The zip, named by its content so that a changed package is a new file; made once."""
    root = Path(coterie.__file__).parent
    sources = sorted(p for p in root.rglob("*") if p.is_file() and p.suffix not in {".pyc", ".nbi", ".nbc"})
    digest = hashlib.blake2b(STUB.encode(), digest_size=8)
    for source in sources:
        digest.update(str(source.relative_to(root)).encode() + source.read_bytes())
    target = (cache_dir() if folder is None else folder) / f"coterie-{digest.hexdigest()}.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("coterie/__init__.py", STUB.replace("DIGEST", digest.hexdigest()))
            for source in sources:
                archive.write(source, f"{UNPACKED}/coterie/{source.relative_to(root)}")
    return target
