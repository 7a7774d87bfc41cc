"""mosquitto's own broker tests (test/broker of its repository) against a node; every test by name, failures with why.

Run `python benchmarks/mosquitto_suite.py FOLDER` with the folder of a checkout. The tests run as they are: where they
start `mosquitto`, a small program of that name starts a node on the port they ask for. Options of mosquitto.conf that a
node has are translated; a test that needs another option, a plugin or a bridge of mosquitto's is left out, and counted.
`--rival PATH` runs the same tests with mosquitto itself, `--page` prints the table of docs/conformance.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import coterie

STAND_IN = """#!{python} -SE
import os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
line.sendall(chr(0).join([os.getcwd(), *sys.argv[1:]]).encode() + b"\\n")
told = line.makefile("r")
word = told.readline().split()
if word[0] != "pid":
    sys.stderr.write("needs " + " ".join(word[1:]) + "\\n")
    os._exit(3)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, frame: os.kill(int(word[1]), number))
ended = told.readline()
os._exit(0)
"""
FORKER = """
import os, signal, sys
from pathlib import Path
from coterie.cli.node import node_command
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    path = Path(line.strip())
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(path.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
        os.dup2(1, 2)
        node_command(path)
        os._exit(0)
    print(pid, flush=True)
"""
IGNORED = {  # of no concern to what a test sees on its port
    "log_type", "log_dest", "connection_messages", "listener", "port", "persistence", "persistence_file",
    "persistence_location", "allow_anonymous", "per_listener_settings", "autosave_interval", "autosave_on_changes",
    "sys_interval", "socket_domain", "protocol", "bind_address", "retry_interval",
}  # fmt: skip
LIMITS = {  # mosquitto.conf -> mqtt.limits
    "max_packet_size": "packet_bytes_max",
    "max_keepalive": "keep_alive_s_max",
    "max_queued_messages": "queue_count_max",
    "max_queued_bytes": "queue_bytes_max",
    "max_inflight_messages": "inflight_count_max",
    "max_topic_alias": "topic_alias_maximum",
    "max_topic_alias_broker": "topic_alias_out_maximum",
}
SAYS_WHY = "MQTT 5: the server says why before it closes (4.13.1), the test wants no word"
ALLOWED = {  # what the standard leaves open, or asks for otherwise
    "01-connect-connack-2163.py": SAYS_WHY,
    "01-connect-duplicate.py": SAYS_WHY,
    "02-subpub-qos1-bad-pubcomp.py": SAYS_WHY,
    "02-subpub-qos1-bad-pubrec.py": SAYS_WHY,
    "02-subpub-qos2-bad-puback-1.py": SAYS_WHY,
    "02-subpub-qos2-bad-puback-2.py": SAYS_WHY,
    "02-subpub-qos2-bad-pubcomp.py": SAYS_WHY,
    "02-subpub-qos2.py": "a message may go on before PUBREC has left (4.3.3, 4.6)",
    "03-publish-dollar-v5.py": "topics that begin with $ are the server's (4.7.2); mosquitto opens one for its bridges",
    "07-will-delay.py": "without an expiry the session ends with its connection, and the will is due (3.1.3.2.2)",
    "07-will-delay-reconnect.py": "as above",
    "07-will-delay-recover.py": "as above",
    "12-prop-maximum-packet-size-broker.py": "a limit of 30 bytes; a node's may be 32 or more (3.2.2.3.6)",
    "12-prop-subpub-payload-format.py": "a payload format other than 0 and 1 is a protocol error (3.3.2.3.2)",
    "01-connect-max-keepalive.py": "MQTT 3.1.1 has no word for too long a keep-alive: it is taken as it is (3.1.2.10)",
    "01-connect-uname-no-password-denied.py": "a wrong password is return code 4, not 5 (3.2.2.3 of 3.1.1)",
    "01-connect-uname-password-denied.py": "as above",
    "01-connect-uname-password-denied-no-will.py": "as above",
    "09-pwfile-parse-invalid.py": "as above",
    "02-subpub-qos1-message-expiry.py": "identifiers of packets are the sender's choice (2.2.1)",
    "03-publish-qos1-max-inflight-expire.py": "as above",
    "11-message-expiry.py": "as above",
    "03-publish-c2b-disconnect-qos2.py": "PUBCOMP may say that the identifier is not known any more (3.7.2.1)",
    "03-publish-qos2-max-inflight-exceeded.py": "MQTT 3.1.1 has no receive maximum: nobody is cut off for it (4.3.3)",
    "02-subpub-qos0-long-topic.py": "a topic may have any number of levels (4.7.3); mosquitto refuses more than 200",
    "02-subscribe-long-topic.py": "as above",
    "03-publish-long-topic.py": "as above",
    "03-publish-qos2-reuse-mid.py": "before PUBREL the same identifier is the same message (4.3.3, MQTT-4.3.3-10)",
    "03-publish-qos1-queued-bytes.py": "the test itself needs Python 2",
    "01-connect-575314.py": "reads mosquitto's own CPU time",
    "01-connect-uname-password-success-no-tls.py": "the test itself names a port before it has one",
    "07-will-takeover.py": "a will without delay is published when its client is taken over (3.1.4, 3.1.2.5), also if "
    "the session goes on",
    "11-persistence-autosave-changes.py": "looks into mosquitto's own database",
    "11-persistent-subscription-no-local.py": "identifiers of packets are the sender's choice (2.2.1)",
    "12-prop-maximum-packet-size-publish-qos1.py": "an acknowledgement may come before or behind a message (4.6)",
    "12-prop-maximum-packet-size-publish-qos2.py": "as above",
    "12-prop-assigned-client-identifier.py": "an assigned client identifier may look like anything (3.2.2.3.7)",
}
DEFAULTS = {"topic_alias_maximum": 10, "packet_bytes_max": 2_000_000, "receive_maximum": 20, "inflight_count_max": 20}
# The tests compare bytes. Properties may come in any order (MQTT 5, 2.2.2.2), so both sides are put in one; and that
# nobody wanted a message (0x10) may be said or not (3.4.2.1, 3.5.2.1): a node of a network does not know. A reason in
# words (3.2.2.3.9) is as free, and so is a limit on packets where the test names none (3.2.2.3.6). Where a test wants
# the connection closed without a word, MQTT 5 lets a server say why (4.13.1).
IN_ORDER = """
import sys
sys.path.insert(0, {source!r})
import mosq_test
import msgspec
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.stream import Decoder

def announced(data):
    packets, decoder = [], Decoder(5)
    decoder.feed(data)
    try:
        packets.append(decoder.next_packet())
    except Exception:
        pass
    return bool(packets and getattr(getattr(packets[0], "properties", None), "maximum_packet_size", None))

def ordered(data, with_size=True):
    decoder, found = Decoder(5), []
    try:
        decoder.feed(data)
        while (packet := decoder.next_packet()) is not None:
            if getattr(packet, "reason", 0) == 0x10:
                packet = msgspec.structs.replace(packet, reason=0)
            if getattr(packet, "properties", None) is not None:
                words = msgspec.structs.replace(packet.properties, reason_string=None)
                if not with_size:
                    words = msgspec.structs.replace(words, maximum_packet_size=None)
                packet = msgspec.structs.replace(packet, properties=words)
            found.append(encode_packet(packet, 5))
    except Exception:
        return data
    return b"".join(found) or data

def one_packet(line):
    data = line.recv(1)
    while data and (len(data) < 2 or data[-1] & 0x80):
        data += line.recv(1)
    size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data[1:]))
    while size and (more := line.recv(size)):
        data, size = data + more, size - len(more)
    return data

def count_of(data):
    count = 0
    while data:
        size, place = 0, 1
        while True:
            size |= (data[place] & 0x7F) << 7 * (place - 1)
            place += 1
            if not data[place - 1] & 0x80:
                break
        data, count = data[place + size:], count + 1
    return count

asked = mosq_test.expect_packet

def expect_packet(line, name, wanted):
    if not wanted:
        got = one_packet(line)
        return asked(line, name, wanted) if not got or got[0] == 0xE0 else mosq_test.packet_matches(name, got, wanted)
    got = b"".join(one_packet(line) for _ in range(count_of(wanted)))
    if not got:
        raise BrokenPipeError(name)
    with_size = announced(wanted)
    if ordered(got, with_size) != ordered(wanted, with_size) and not mosq_test.packet_matches(name, got, wanted):
        raise mosq_test.TestError
    return True

mosq_test.expect_packet = expect_packet
"""
LEFT_OUT = (
    r"^(06-bridge|08-|09-plugin|09-extended|10-|13-|14-|15-|16-|17-|20-|21-|22-|23-|.*plugin|.*unix-socket|.*-db\.py)"
)
HOPELESS_S = 60.0


class Stable:
    """Starts a node for each stand-in that asks: forked from a process that has loaded all, it is there at once."""

    def __init__(self, folder: Path) -> None:
        self.needs: Counter[str] = Counter()
        self._folder = folder
        self._address = str(folder / "stable")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._address)
        self._listener.listen(64)
        self._forker = subprocess.Popen(
            [sys.executable, "-c", FORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._forker.stdout is not None
        self._forker.stdout.readline()
        self._lock = threading.Lock()
        put_in_place(folder, STAND_IN.format(python=sys.executable, address=self._address))

    def serve(self) -> None:
        while True:
            line, _ = self._listener.accept()
            threading.Thread(target=self._start, args=(line,), daemon=True).start()

    def _start(self, line: socket.socket) -> None:
        with line, line.makefile("rw") as told:
            folder, *arguments = told.readline().rstrip("\n").split("\0")
            try:
                path = self._configured(Path(folder), arguments)
            except LookupError as missing:
                told.write(f"needs {missing.args[0]}\n")
                return
            pid = self._forked(path)
            told.write(f"pid {pid}\n")
            told.flush()
            while _is_there(pid):
                time.sleep(0.02)

    def _forked(self, path: Path) -> int:
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        with self._lock:
            self._forker.stdin.write(f"{path}\n")
            self._forker.stdin.flush()
            return int(self._forker.stdout.readline())

    def close(self) -> None:
        assert self._forker.stdin is not None
        self._forker.stdin.close()
        self._forker.wait()

    def _configured(self, folder: Path, arguments: list[str]) -> Path:
        port, limits, extra, keeps = 0, dict(DEFAULTS), {}, False
        access, listeners = {"anonymous": '"always"'}, 0
        for name, value in pairwise(arguments):
            if name == "-p":
                port = int(value)
            if name == "-c":
                for option, given in _options(folder / value):
                    if option in ("listener", "port"):
                        port = port or int(given.split()[0])
                        listeners += 1
                        if listeners > 1:
                            raise LookupError("a second listener")
                        if "allow_anonymous" not in dict(_options(folder / value)):
                            access["anonymous"] = '"never"'
                    elif option in ("allow_anonymous", "listener_allow_anonymous"):
                        access["anonymous"] = '"always"' if given == "true" else '"never"'
                    elif option == "password_file":
                        access["password_file"] = f'"{(folder / given).resolve()}"'
                    elif option in LIMITS:
                        limits[LIMITS[option]] = int(given)
                        if option == "max_inflight_messages":
                            limits["receive_maximum"] = int(given)
                    elif option == "persistence_file":
                        database = folder / given
                        keeps = database.exists()
                        database.touch()  # as mosquitto would; a test removes it to begin anew
                    elif option in ("max_connections", "global_max_connections"):
                        extra["connections_max"] = int(given)
                    elif option not in IGNORED:
                        raise LookupError(option)
        home = self._folder / f"{port}"
        home.mkdir(exist_ok=True)
        if not keeps:
            shutil.rmtree(home / "data", ignore_errors=True)
        path = home / "node.toml"
        tables = "".join(f"{name} = {value}\n" for name, value in limits.items())
        keys = "".join(f"{name} = {value}\n" for name, value in extra.items())
        text = f'[node]\ndata = "data"\n[mqtt]\nport = {port}\nprofile = "conformance"\n{keys}[mqtt.limits]\n{tables}'
        rights = "".join(f"{name} = {value}\n" for name, value in access.items())
        path.write_text(f"{text}[journal]\nenabled = false\n[access]\n{rights}")
        return path


def put_in_place(folder: Path, program: str) -> None:
    """What the tests start as mosquitto, and how they compare packets."""
    source = str(Path(coterie.__file__).parent.parent)
    (folder / "sitecustomize.py").write_text(IN_ORDER.format(source=source))
    stand_in = folder / "src" / "mosquitto"
    stand_in.parent.mkdir()
    stand_in.write_text(program)
    stand_in.chmod(0o755)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _options(path: Path) -> list[tuple[str, str]]:
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [(name, value) for name, _, value in (line.partition(" ") for line in lines if line and line[0] != "#")]


def run_one(path: Path, build: Path, port: int, says: bool, allowed: dict[str, str]) -> tuple[str, str]:
    """passes, fails or is left out; and why."""
    path_first = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"  # some start others as python3
    words = {"BUILD_ROOT": str(build), "PYTHONPATH": f"{build}:{path.parents[1]}", "PATH": path_first}
    env = {**os.environ, **words}
    asked = re.search(r"get_port\((\d+)\)", path.read_text())
    ports = [str(port + number) for number in range(int(asked[1]) if asked else 1)]
    command = [sys.executable, path.name, *ports]
    process = subprocess.Popen(
        command, cwd=path.parent, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=HOPELESS_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        told = f"no end after {HOPELESS_S:g} s"
        return ("may fail", allowed[path.name]) if path.name in allowed else ("fails", told)
    if process.returncode == 0:
        return "passes", ""
    if found := re.search(r"needs ([a-z_ ]+)", said):
        return "is left out", f"option {found[1]}"
    if says:
        print(said)
    if path.name in allowed:
        return "may fail", allowed[path.name]
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return "fails", " | ".join(lines[-3:])[:240]


def page() -> str:
    """The table of the documentation."""
    rows, before = [], ""
    for name, why in ALLOWED.items():
        before = before if why == "as above" else why
        rows.append(f"| `{name.removesuffix('.py')}` | {before} |")
    rows.sort()
    return "\n".join(["| test | why it may fail |", "|---|---|", *rows]) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "suite", type=Path, nargs="?", default=Path(), help="a checkout of eclipse-mosquitto/mosquitto"
    )
    arguments.add_argument("--page", action="store_true", help="only print the table of tests that may fail")
    arguments.add_argument("--only", default="", help="tests whose file name has this in it")
    arguments.add_argument("--say", action="store_true", help="all that a failing test prints")
    arguments.add_argument("--rival", type=Path, help="the program mosquitto, to be tried instead of a node")
    arguments.add_argument("--port", type=int, default=20_000, help="the first of five ports a test")
    chosen = arguments.parse_args()
    if chosen.page:
        print(page(), end="")
        return
    tests = sorted((chosen.suite / "test" / "broker").glob("[0-9]*.py"))
    tests += (chosen.suite / "test" / "broker").glob("msg_sequence_test.py")
    left_out = [one for one in tests if re.match(LEFT_OUT, one.name)]
    tests = [one for one in tests if not one.name.endswith("-helper.py")]  # parts of others
    tests = [one for one in tests if one not in left_out and chosen.only in one.name]
    counts: Counter[str] = Counter()
    allowed = {} if chosen.rival else ALLOWED
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(chosen.suite / "test", Path(folder) / "test")  # older ones start ../../src/mosquitto
        stable = None
        if chosen.rival:
            put_in_place(Path(folder), f'#!/bin/sh\nexec {chosen.rival} "$@"\n')
        else:
            stable = Stable(Path(folder))
            threading.Thread(target=stable.serve, daemon=True).start()
        for number, path in enumerate(tests):
            verdict, why = run_one(
                Path(folder) / "test" / "broker" / path.name,
                Path(folder),
                chosen.port + 5 * number,
                chosen.say,
                allowed,
            )
            counts[verdict] += 1
            if verdict != "passes":
                print(f"{path.name} {verdict}: {why}", flush=True)
        if stable is not None:
            stable.close()
    told = {
        "passes": "pass",
        "fails": "fail",
        "may fail": "may fail by the standard",
        "is left out": "need other options",
    }
    print(", ".join(f"{counts[verdict]} {words}" for verdict, words in told.items()), end="")
    print(f"; {len(left_out)} are of mosquitto's own bridges, plugins, TLS and command line")
    sys.exit(1 if counts["fails"] else 0)


if __name__ == "__main__":
    main()
