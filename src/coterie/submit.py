"""What `spark-submit` is given: the command line under the master, memory and jars that spark-submit was told.

spark-submit --master yarn submit.py plan s3a://bucket/logs --out s3a://bucket/plans
"""

from __future__ import annotations

import importlib


def main() -> None:
    importlib.import_module("coterie.cli.main").run()


if __name__ == "__main__":
    main()
