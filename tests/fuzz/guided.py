"""A search guided by coverage, by atheris where it is: `python -m tests.fuzz --atheris TARGET -- -max_total_time=60`.

What the search reaches is kept in a folder for its time only; what breaks a target ends the run with its bytes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main(target: str, rest: list[str]) -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: `pip install atheris` where it has a wheel (CPython 3.11 and later, Linux)")
    with atheris.instrument_imports(include=["coterie.mqtt", "coterie.broker", "coterie.live"]):
        from tests.fuzz.mutate import kept
        from tests.fuzz.targets import TARGETS
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate([*TARGETS[target].seeds, *kept(target)]):
            (Path(folder) / f"{number:06d}").write_bytes(data)
        atheris.Setup([sys.argv[0], *rest, folder], TARGETS[target].check)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], [one for one in sys.argv[2:] if one != "--"])
