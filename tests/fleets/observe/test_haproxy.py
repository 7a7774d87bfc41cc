"""HAProxy's ring: who came to which server, each connection once however often the ring is read."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from coterie.errors import InputError
from coterie.fleets.observe import haproxy
from coterie.fleets.observe.following import Totals
from coterie.fleets.observe.gathering import Gathering
from coterie.fleets.observe.journalstore import JournalStore, ObserveState
from coterie.fleets.observe.live import observe_live
from coterie.fleets.observe.places import BrokerPlace
from tests.interop.fleet import free_ports


def take_in(lines: list[str], state: ObserveState | None = None) -> Gathering:
    gathering = Gathering()
    haproxy.take_in(lines, 5.0, "place", state or ObserveState(), gathering)
    return gathering


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("127.0.0.1:371 b0 2 4 - plain", ("b0", 5_000_000, "plain", "127.0.0.1:371")),
        ("127.0.0.1:371 b0 2 5 3600 a%20b%2Fc", ("b0", 5_000_000, "a b/c", "127.0.0.1:371")),
        ("1700000000.250 ::1:371 back/b1 x", ("b1", 1_700_000_000_250_000, "x", "::1:371")),
        (
            "<134>1 2026-11-16T10:49:01.554231+00:00 - haproxy 30468 - - 1794826141.553 127.0.0.1:1 b/b0 plain",
            ("b0", 1_794_826_141_553_000, "plain", "127.0.0.1:1"),
        ),
        ("<134>Nov 16 10:49:01 haproxy[77]: 127.0.0.1:1 b0 2 4 - x", ("b0", 5_000_000, "x", "127.0.0.1:1")),
    ],
)
def test_lines(line, expected):
    assert take_in([line]).attached == [expected]


def test_what_has_no_server_or_no_name_is_not_ours_and_the_rest_is_a_puzzle():
    gathering = take_in(["127.0.0.1:1 <NOSRV> 2 4 - x", "127.0.0.1:1 b0 2 4 - -", "what?"])
    assert gathering.attached == []
    assert gathering.account(haproxy.ELSEWHERE).counts == {"other": 2, "not understood": 1}


def test_a_ring_is_a_window_that_moves_on():
    state = ObserveState()
    lines = [f"127.0.0.1:{port} b0 2 4 - c{port % 3}" for port in range(1, 30)]
    seen = []
    for begin, end in ((0, 5), (0, 5), (3, 9), (8, 12), (20, 25)):
        gathering = take_in(lines[begin:end], state)
        seen += [origin for _, _, _, origin in gathering.attached]
        notes = gathering.account(haproxy.ELSEWHERE).notes
    assert [origin.split(":")[1] for origin in seen] == [str(port) for port in [*range(1, 13), *range(21, 26)]]
    assert "run over" in notes[0]


def test_no_socket_says_so(tmp_path):
    with pytest.raises(InputError, match="no runtime socket"):
        haproxy.ask_ring(f"unix://{tmp_path}/none")


CONFIGURATION = """
global
    stats socket {socket} mode 600 level admin
ring conns
    format raw
    maxlen 1200
    size 65536
defaults
    mode tcp
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend mqtt
    bind 127.0.0.1:{port}
    option logasap
    log ring@conns format raw local0
    log-format "%Ts.%ms %ci:%cp %b/%s %[var(sess.client)]"
    tcp-request inspect-delay 5s
    tcp-request content reject unless {{ req.payload(0,0),mqtt_is_valid }}
    tcp-request content set-var(sess.client) req.payload(0,0),mqtt_field_value(connect,client_identifier),url_enc
    default_backend brokers
backend brokers
    server b0 127.0.0.1:{broker}
"""


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="no haproxy here")
def test_a_real_haproxy(tmp_path):
    import socket

    from coterie.live.client import connect_packet
    from coterie.mqtt.client import Client

    port, broker = free_ports(2)
    (tmp_path / "h.cfg").write_text(CONFIGURATION.format(socket=tmp_path / "sock", port=port, broker=broker))
    listener = socket.create_server(("127.0.0.1", broker))
    program = subprocess.Popen(["haproxy", "-f", str(tmp_path / "h.cfg")], stderr=subprocess.DEVNULL)
    place = BrokerPlace("", f"unix://{tmp_path}/sock")
    try:
        for name in ("plain", "with space ünï"):
            client = Client(connect_packet(name))
            client.start(0.0)
            _say(port, b"".join(client.output), listener)
        found = {}
        with JournalStore(tmp_path / "out", "haproxy") as store:
            for _ in range(100):
                observe_live(store, "haproxy", [place], 0.01, 0.0, Totals())
                lines = [
                    json.loads(line)
                    for path in (tmp_path / "out").glob("b0/*")
                    for line in path.read_text().splitlines()
                ]
                found = {line["client"]: line["kind"] for line in lines if line["kind"] == "attach"}
                if len(found) == 2:
                    break
                time.sleep(0.05)
        assert found == {"plain": "attach", "with space ünï": "attach"}
    finally:
        program.terminate()
        program.wait(10)
        listener.close()


def _say(port: int, data: bytes, listener) -> None:
    import socket

    for _ in range(100):
        try:
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.sendall(data)
                listener.settimeout(10)
                accepted, _ = listener.accept()
                accepted.recv(1000)
                accepted.close()
                return
        except ConnectionRefusedError:
            time.sleep(0.05)


def test_a_saved_ring(tmp_path):
    (tmp_path / "ring.txt").write_text("127.0.0.1:1 b0 2 4 - x\n")
    totals = Totals()
    with JournalStore(tmp_path / "out", "haproxy") as store:
        observe_live(store, "haproxy", [BrokerPlace("", str(tmp_path / "ring.txt"))], 1.0, 1.0, totals)
    assert Path(tmp_path / "out" / "b0" / "000000000001.jsonl").exists()
    assert totals.accounts["b0"].used == 1
