"""The public MQTT test suite (eclipse/paho.mqtt.testing) against a node with the conformance profile; counts printed.

Run `python benchmarks/mqtt_suite.py FOLDER` with the folder of a checkout of the suite. Its own command line mishandles
the port, so its modules are driven through unittest with host and port set.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import logging
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from bench_broker import free_port, wait_open

FILES = {"MQTT 3.1.1": "client_test", "MQTT 5": "client_test5"}
TOPICS = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
WILD = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")


def run_file(name: str, port: int) -> unittest.TestResult:
    module = importlib.import_module(name)
    settings = {"host": "127.0.0.1", "port": port, "topics": TOPICS, "wildtopics": WILD, "topic_prefix": ""}
    for key, value in {**settings, "nosubscribe_topics": ("test/nosubscribe",)}.items():
        setattr(module, key, value)
    found = unittest.defaultTestLoader.loadTestsFromModule(module)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        return unittest.TextTestRunner(stream=said, verbosity=0).run(found)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("suite", type=Path, help="a checkout of eclipse/paho.mqtt.testing")
    chosen = arguments.parse_args()
    sys.path.insert(0, str(chosen.suite / "interoperability"))
    logging.disable(logging.CRITICAL)
    port = free_port()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "node.toml"
        path.write_text(
            f'[mqtt]\nport = {port}\nprofile = "conformance"\n[access]\ndenied_subscriptions = ["test/nosubscribe"]\n'
        )
        command = [sys.executable, "-m", "coterie.cli.node", "--config", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_open(port)
            for title, name in FILES.items():
                result = run_file(name, port)
                failed = result.failures + result.errors
                print(f"{title}: {result.testsRun - len(failed)} of {result.testsRun} pass", flush=True)
                for test, trace in failed:
                    print(f"  {test.id()}: {trace.strip().splitlines()[-1]}")
                bad += len(failed)
        finally:
            process.terminate()
            process.wait()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
