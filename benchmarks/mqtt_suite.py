"""The public MQTT test suite (eclipse/paho.mqtt.testing) against nodes with the conformance profile; counts printed.

Run `python benchmarks/mqtt_suite.py FOLDER` with the folder of a checkout of the suite. Its own command line mishandles
the port, so its modules are driven through unittest with host and port set. With `--nodes 2` its connections take turns
over the nodes of one network, behind one port: a session, a queue or a retained message left at one node must be there
at the next. `--processes 2` is one node with that many processes: the kernel deals out the connections.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import itertools
import logging
import socket
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path

from brokers import free_base, free_port, shared_port
from coterie.api.running import arranged

FILES = {"MQTT 3.1.1": "client_test", "MQTT 5": "client_test5"}
TOPICS = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
WILD = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")
PROFILE = '\n[access]\ndenied_subscriptions = ["test/nosubscribe"]\n'


def run_file(name: str, port: int) -> unittest.TestResult:
    module = importlib.import_module(name)
    settings = {"host": "127.0.0.1", "port": port, "topics": TOPICS, "wildtopics": WILD, "topic_prefix": ""}
    for key, value in {**settings, "nosubscribe_topics": ("test/nosubscribe",)}.items():
        setattr(module, key, value)
    found = unittest.defaultTestLoader.loadTestsFromModule(module)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        return unittest.TextTestRunner(stream=said, verbosity=0).run(found)


def pipe(source: socket.socket, sink: socket.socket) -> None:
    """Bytes one way until either side has gone; then both know."""
    with contextlib.suppress(OSError):
        while piece := source.recv(65_536):
            sink.sendall(piece)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def take_turns(listener: socket.socket, ports: list[int]) -> None:
    """Every new connection goes to the next node."""
    for port in itertools.cycle(ports):
        try:
            client, _ = listener.accept()
        except OSError:  # closed: the suite is over
            return
        node = socket.create_connection(("127.0.0.1", port))
        for end in (client, node):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink in ((client, node), (node, client)):
            threading.Thread(target=pipe, args=(source, sink), daemon=True).start()


@contextlib.contextmanager
def network(nodes: int, system: str) -> Iterator[int]:
    """Nodes with the suite's limits; the port that stands before all of them."""
    base = free_base(nodes)
    with tempfile.TemporaryDirectory() as folder:
        processes = arranged(None, nodes, system, {}, base, Path(folder), "127.0.0.1", 0)
        for path in Path(folder).glob("node-*/node.toml"):
            path.write_text(path.read_text().replace("[mqtt]\n", '[mqtt]\nprofile = "conformance"\n') + PROFILE)
        listener = socket.create_server(("127.0.0.1", free_port()))
        try:
            processes.start()
            processes.wait_healthy(60.0)
            ports = [base + node for node in range(nodes)]
            threading.Thread(target=take_turns, args=(listener, ports), daemon=True).start()
            yield listener.getsockname()[1]
        finally:
            listener.close()
            processes.stop()


@contextlib.contextmanager
def processes_of_one(count: int) -> Iterator[int]:
    """One node of several processes; its port."""
    with tempfile.TemporaryDirectory() as folder:
        rest = '[access]\ndenied_subscriptions = ["test/nosubscribe"]\n'
        with shared_port(Path(folder), count, 'profile = "conformance"\n', rest) as (port, _, _):
            yield port


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("suite", type=Path, help="a checkout of eclipse/paho.mqtt.testing")
    arguments.add_argument("--nodes", type=int, default=1, help="connections take turns over so many nodes")
    arguments.add_argument("--system", default="mesh", help="the system of the network, where there are several nodes")
    arguments.add_argument("--processes", type=int, default=0, help="one node of so many processes instead")
    chosen = arguments.parse_args()
    sys.path.insert(0, str(chosen.suite / "interoperability"))
    logging.disable(logging.CRITICAL)
    bad = 0
    with processes_of_one(chosen.processes) if chosen.processes else network(chosen.nodes, chosen.system) as port:
        for title, name in FILES.items():
            result = run_file(name, port)
            failed = result.failures + result.errors
            print(f"{title}: {result.testsRun - len(failed)} of {result.testsRun} pass", flush=True)
            for test, trace in failed:
                print(f"  {test.id()}: {trace.strip().splitlines()[-1]}")
            bad += len(failed)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
