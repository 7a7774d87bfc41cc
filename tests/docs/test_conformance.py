"""The page about other people's tests names what the script allows, test by test."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location

from tests.docs.pages import DOCS, ROOT


def test_the_page_has_the_table_of_the_script():
    spec = spec_from_file_location("mosquitto_suite", ROOT / "benchmarks" / "mosquitto_suite.py")
    assert spec is not None
    assert spec.loader is not None
    suite = module_from_spec(spec)
    sys.modules[spec.name] = suite
    spec.loader.exec_module(suite)
    assert suite.page() in (DOCS / "conformance.md").read_text(), "python benchmarks/mosquitto_suite.py --page"
    reasons = [why for why in suite.ALLOWED.values() if why != "as above"]
    about_the_test = [why for why in reasons if not re.search(r"\(\d(\.\d+)*", why)]
    assert len(about_the_test) <= 4, "all others name a paragraph"
