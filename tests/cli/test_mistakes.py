"""What people get wrong on the command line, and what surrounds it: files, folders, disks, peers, pipes."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coterie.cli import main, pubsub
from coterie.cli.main import COMMANDS
from coterie.live import client as client_module
from coterie.mqtt.packets import Publish

PYTHON = [sys.executable, "-m", "coterie"]


@pytest.fixture
def coterie(typed):
    """The command in this process: (exit code, standard output, standard error in one line)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code, out, err = typed(*arguments)
        return code, out, " ".join(err.split())

    return call


@contextmanager
def server(answer: bytes = b"", closes: bool = False) -> Iterator[int]:
    """Somebody who takes connections, says this and nothing more; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                if closes:
                    connection.recv(65536)  # first hears what it is asked
                connection.sendall(answer)
                if closes:
                    connection.close()
                kept.append(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        for one in kept:
            one.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_a_folder_that_cannot_be_made_is_nobodys_defect(coterie, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for arguments in (
        ["price", "--nodes", "20", "--topics", "20", "--subscriptions", "1", "-s", "flooding", "--save"],
        ["up", "--nodes", "1", "--base-port", str(free_port() % 40_000 + 1024), "--data"],
    ):
        code, _, err = coterie(*arguments, str(taken / "sub"))
        assert code == 3, err
        assert f"{taken}" in err
        assert "defect" not in err


def test_what_the_system_refuses_is_told_without_a_file_too():
    assert (
        main.environment_says(OSError(errno.ENOSPC, "No space left")) == "the output cannot be written: no space left"
    )
    assert main.environment_says(PermissionError(errno.EACCES, "Permission denied", "x.npz")).startswith("x.npz: ")
    assert "TimeoutError" in main.environment_says(TimeoutError()).replace("timeouterror", "TimeoutError")


def test_closed_and_full_output_end_in_order():
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *PYTHON, "--version"], capture_output=True, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (0, "")
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            done = subprocess.run([*PYTHON, "workloads"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 3
        assert "cannot be written" in done.stderr
        assert "Traceback" not in done.stderr


def test_help_breaks_lines_where_the_terminal_ends(coterie, monkeypatch):
    assert "\n" not in main.help_of(lambda: None)

    def command() -> None:
        """First.

        Second goes on
        in the next line.
        """

    assert main.help_of(command) == "First.\n\nSecond goes on in the next line."


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (b"\xff\xfe", 3, "node.toml: is not TOML"),
        (b"a = [", 3, "node.toml: is not TOML"),
        (b"[node]\nidd = 3\n", 2, "node.toml: node.idd: expected a key of a node's configuration, got 3; see"),
        (b'[node]\nid = "x"\n', 2, "node.toml: node.id: expected a whole number, got 'x'; see"),
        (b"[mqtt]\nport = 70000\n", 2, "node.toml: mqtt.port: expected 0 to 65535, got 70000"),
        (b"[[network.peers]]\nid = 1\n", 2, "node.toml: network.peers[0]: expected"),
        (b'[network]\nslice = "no.json"\n', 3, "no.json: cannot be read"),
        (b'[network]\nkey_file = "no.key"\n', 3, "no.key: cannot be read"),
    ],
)
def test_a_wrong_configuration_is_told_with_file_and_key(coterie, tmp_path, text, code, says):
    path = tmp_path / "node.toml"
    path.write_bytes(text)
    found, _, err = coterie("node", "--config", str(path), "--check")
    assert (found, says in err) == (code, True), err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pub", "a/#", "x"], "holds a wildcard"),
        (["pub", "", "x"], "empty"),
        (["pub", "a", "x", "--file", "y"], "not both"),
        (["sub", "a/#/b"], "misplaces a wildcard"),
        (["sub", "a", "--keep", "-5"], "--keep"),
        (["sub", "a", "--count", "-1"], "--count"),
        (["sub", "a", "--wait", "-1"], "--wait"),
        (["bench", "--topic", "a/#"], "without wildcards"),
        (["bench", "--size", "300000000"], "--size"),
        (["bench", "--pid", "999999999"], "--pid: expected"),
        (["top", "--base-port", "99999"], "--base-port"),
        (["dashboard", "--base-port", "99999"], "--base-port"),
        (["dashboard", "--port", "70000"], "--port"),
        (["apply", "x", "--nodes", "-1"], "--nodes"),
        (["up", "--seed", "-1"], "--seed"),
        (["up", "--host", "nobody.invalid"], "--host: expected an address"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(coterie, arguments, says):
    code, _, err = coterie(*arguments)
    assert (code, says in err) == (2, True), err


def test_pub_reads_its_file_before_it_connects(coterie):
    code, _, err = coterie("pub", "a", "--file", "nothing-here", "--port", str(free_port()))
    assert (code, "nothing-here: cannot be read" in err) == (3, True), err


def test_a_server_that_says_nothing_is_given_up(coterie, monkeypatch):
    monkeypatch.setattr(client_module, "ANSWER_S", 0.05)
    monkeypatch.setattr("coterie.cli.pubsub.MqttClient", hasty)
    with server() as port:
        code, _, err = coterie("pub", "a", "x", "--port", str(port))
        assert (code, f"127.0.0.1:{port} cannot be reached: it said nothing" in err) == (6, True), err


def test_sub_says_what_it_waits_for(coterie, monkeypatch):
    monkeypatch.setattr("coterie.cli.pubsub.MqttClient", hasty)
    port = free_port()
    code, _, err = coterie("sub", "a", "--port", str(port))
    assert code == 6
    assert f"127.0.0.1:{port} cannot be reached: nobody listens there; is the network up? (trying again)" in err
    assert err.count("trying again") == 1
    with server(closes=True) as closing:
        code, _, err = coterie("sub", "a", "--port", str(closing))
        assert (code, f"127.0.0.1:{closing} c" in err) == (6, True), err


def hasty(*arguments: object, **options: object) -> client_module.MqttClient:
    return client_module.MqttClient(*arguments, **{**options, "give_up_s": 0.2})  # type: ignore[arg-type]


def test_a_port_that_is_no_admin_interface_is_told(coterie):
    for answer, says in ((b"\x00\x01junk\r\n", "HTTP"), (b"HTTP/1.0 200 OK\r\n\r\n<html>", "not JSON")):
        with server(answer, closes=True) as port:
            code, _, err = coterie("top", "--admin", f"127.0.0.1:{port}", "--once")
            assert code == 6, err
            assert f"127.0.0.1:{port}" in err
            assert says in err


def test_top_as_json_fails_where_nobody_answers(coterie):
    code, out, err = coterie("top", "--json", "--admin", f"127.0.0.1:{free_port()}")
    assert (code, out) == (6, "")
    assert "no node answers" in err


def test_bench_sees_that_the_broker_has_gone(coterie):
    with server(bytes([0x20, 2, 0, 0]), closes=True) as port:
        code, _, err = coterie("bench", "--port", str(port), "--subscribers", "0", "-n", "100", "--qos", "1")
        assert (code, "defect" in err) == (6, False), err


@pytest.mark.parametrize(
    ("manifest", "says"),
    [("{", "not JSON"), ("[]", "is damaged"), ('{"version": 1}', "is damaged")],
)
def test_a_damaged_manifest_is_named(coterie, tmp_path, manifest, says):
    folder = tmp_path / "plans" / "000001"
    folder.mkdir(parents=True)
    (tmp_path / "plans" / "CURRENT").write_text("1\n")
    (folder / "manifest.json").write_text(manifest)
    for given in (tmp_path, tmp_path / "plans"):  # `coterie plan` prints the second one
        code, _, err = coterie("apply", str(given), "--dry-run")
        assert (code, f"{folder / 'manifest.json'}: is damaged" in err, says in err) == (3, True, True), err


def test_a_file_is_no_folder_of_plans(coterie, tmp_path):
    (tmp_path / "file").write_text("")
    for more in ([], ["--version", "1"]):
        code, _, err = coterie("apply", str(tmp_path / "file"), *more)
        assert (code, "file: is not a folder of plans" in err) == (3, True), err


def test_doctor_finds_a_wrong_folder_of_traces(coterie, monkeypatch, tmp_path):
    monkeypatch.setenv("COTERIE_TRACES", str(tmp_path / "gone"))
    code, out, _ = coterie("doctor", "--json")
    checks = {one["name"]: one for one in json.loads(out)["checks"]}
    assert (code, checks["traces"]["ok"]) == (1, False)
    assert str(tmp_path / "gone") in checks["traces"]["found"]
    assert "Java(" not in checks["java"]["found"]


def test_nobody_is_told_to_load_a_file_unsafely(coterie, tmp_path):
    (tmp_path / "junk.npz").write_bytes(bytes(range(100)))
    code, _, err = coterie("price", "--from", str(tmp_path / "junk.npz"))
    assert (code, "pickle" in err) == (3, False), err


class Scripted:
    """A client whose server sends three messages at once and takes what is published."""

    server, redirects = ("here", 1), 0

    def __init__(self, host, port, packet, on_message=None, **options):
        self._show = on_message
        self.published: list[bytes] = []

    async def __aenter__(self):
        Scripted.last = self
        return self

    async def __aexit__(self, *error):
        pass

    async def subscribe(self, *filters, qos):
        for number in range(3):
            self._show(Publish("a", b"message %d" % number, 1))
        return (1,) * len(filters)

    async def publish(self, topic, payload, qos, retain):
        self.published.append(payload)
        return 0

    async def drain(self):
        pass


@pytest.mark.parametrize(("count", "shown"), [(0, 3), (1, 1), (2, 2)])
def test_sub_shows_every_message_until_there_are_enough(monkeypatch, capfdbinary, count, shown):
    monkeypatch.setattr("coterie.cli.pubsub.MqttClient", Scripted)
    with open(1, "wb", closefd=False) as raw, io.TextIOWrapper(raw) as text:
        monkeypatch.setattr(sys, "stdout", text)
        pubsub.sub_command(["a"], count=count, wait=0.05, server=pubsub.ConnectionOptions())
        text.flush()
    assert capfdbinary.readouterr().out.count(b"message") == shown


def test_pub_takes_lines_as_they_are_written(monkeypatch):
    """The second line is written when the first one is published: whoever waits for the end of input never ends."""
    monkeypatch.setattr("coterie.cli.pubsub.MqttClient", Scripted)
    reading, writing = os.pipe()
    with open(reading, "rb") as source, open(writing, "wb", buffering=0) as sink, io.TextIOWrapper(source) as text:
        monkeypatch.setattr(sys, "stdin", text)

        class Answering(Scripted):
            async def publish(self, topic, payload, qos, retain):
                sink.write(b"two\n") if payload == b"one" else sink.close()
                return await super().publish(topic, payload, qos, retain)

        monkeypatch.setattr("coterie.cli.pubsub.MqttClient", Answering)
        sink.write(b"one\n")
        pubsub.pub_command("a", server=pubsub.ConnectionOptions())
    assert Scripted.last.published == [b"one", b"two"]


def test_a_bridge_that_logs_its_trace_is_not_heard():
    says = "import logging, sys; from coterie.cli import main; sys.argv = ['coterie', '--version']\n"
    says += "try: main.run()\nfinally: logging.error('a trace of Spark'); logging.getLogger('asyncio').error('ours')"
    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=False)
    assert "a trace of Spark" not in done.stderr
    assert "ours" in done.stderr  # what a node's own loop complains of must not be lost


def test_what_breaks_on_the_way_out_of_an_interruption_is_part_of_it(coterie, monkeypatch):
    def cut_short() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("Broken pipe")  # as Spark's bridge does

    monkeypatch.setattr(main, "app", lambda arguments, prog_name: cut_short())
    code, _, told = coterie("compare")
    assert (code, told.strip()) == (130, "stopped")


@pytest.mark.parametrize(("name", "is_there"), [("node", False), ("up", True), ("apply", True), ("pub", True)])
def test_what_windows_cannot_run_says_so(coterie, monkeypatch, name, is_there):
    """Without the modules that only POSIX has: every command has help, a node to be run says a sentence."""
    for module in main.NOT_ON_WINDOWS:
        monkeypatch.setitem(sys.modules, module, None)
    for module in [one for one in sys.modules if one.startswith(("coterie.live.node", "coterie.live.figures"))]:
        monkeypatch.delitem(sys.modules, module)
    for module in [f"coterie.cli.{COMMANDS[name].place.partition(':')[0]}", "coterie.api.running"]:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    code, said, told = coterie(name, "--help")
    assert code == 0
    assert f"coterie {name}" in said
    if not is_there:
        code, _, told = coterie(name, "--config", "node.toml")
        assert code == 2
        assert f"coterie {name}: expected Linux, macOS" in told


def test_up_on_windows_says_so(coterie, monkeypatch, tmp_path):
    monkeypatch.delattr("os.fork")
    code, _, told = coterie("up", "--data", str(tmp_path / "net"))
    assert code == 2
    assert "expected Linux, macOS or WSL" in told
