"""The same bytes to us and to others: what one takes and the other refuses, by kind, with what the standard says.

Kinds that were looked at stand in `differences.toml` with the paragraph they follow from; a run that finds another kind
prints it with an example and fails. `rust` asks two codecs (`rust/`, built by cargo into `out/`), `mosquitto` a broker.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import struct
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.reasons import MqttError
from coterie.mqtt.stream import Decoder
from tests.fuzz.mutate import inputs
from tests.fuzz.targets import OPTIONS
from tests.interop.rivals import listens, open_mosquitto
from tests.mqtt.conversation import Network

HERE = Path(__file__).parent
OUT = HERE.parent.parent / "out" / "fuzz" / "rust"
CODECS = ("rmqtt-codec", "mqttbytes")
BATCH = 2000
SLOW_S = 10.0  # on a busy machine
NAMES = ["?", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK",
         "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"]  # fmt: skip
TAKEN, WAITS, REFUSED = "taken", "waits", "closed"
PING, PINGRESP = b"\xc0\x00", b"\xd0\x00"


class Verdict(NamedTuple):
    """`count` packets were taken; `about` says why the next one was refused."""

    ended: str
    count: int = 0
    about: str = ""


class Tally:
    """Kinds of differences, how often, and one example of each."""

    def __init__(self, rival: str) -> None:
        self.rival = rival
        self.alike = 0
        self.kinds: Counter[str] = Counter()
        self.examples: dict[str, bytes] = {}
        self._known = tomllib.loads((HERE / "differences.toml").read_text()).get(rival, {})

    def add(self, kind: str | None, data: bytes) -> None:
        if kind is None:
            self.alike += 1
            return
        self.kinds[kind] += 1
        self.examples.setdefault(kind, data)

    def reason(self, kind: str) -> str | None:
        """Why they differ so, where somebody has looked at it."""
        return next((why for pattern, why in self._known.items() if re.fullmatch(pattern, kind)), None)

    def told(self) -> int:
        """Prints; how many kinds nobody has looked at."""
        total = self.alike + self.kinds.total()
        say = sys.stdout.write
        say(f"{self.rival}: {total:,} inputs, {self.alike:,} taken or refused alike, {self.kinds.total():,} not:\n")
        fresh = 0
        for kind, count in self.kinds.most_common():
            reason = self.reason(kind)
            fresh += reason is None
            example = f"NEW, for instance {self.examples[kind].hex()}"
            say(f"  {count:>9,}  {kind}\n             {reason or example}\n")
        sys.stdout.flush()
        return fresh


def kind_of(text: str) -> str:
    """A reason without what is particular about it."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", re.sub(r"(b?'[^']*'|b?\"[^\"]*\")", "...", text))


def decoded(version: int, data: bytes) -> Verdict:
    """Our codec's verdict on a stream."""
    decoder = Decoder(version, OPTIONS.packet_bytes_max)
    decoder.feed(data)
    count = 0
    try:
        while decoder.next_packet() is not None:
            count += 1
    except MqttError as error:
        return Verdict(REFUSED, count, kind_of(error.reason))
    return Verdict(WAITS, count)


def packet_at(version: int, data: bytes, number: int) -> str:
    """The type of a stream's packet, by its number, as far as we read it."""
    decoder = Decoder(version, OPTIONS.packet_bytes_max)
    decoder.feed(data)
    for _ in range(number):
        decoder.next_packet()
    return NAMES[decoder.data[decoder.pos] >> 4] if decoder.pos < len(decoder.data) else "?"


def compared(version: int, data: bytes, ours: Verdict, theirs: Verdict) -> str | None:
    """How two codecs differ first, or None. A packet that we refuse and they wait for differs as well."""
    if theirs.ended == "panic":
        return "it panics"
    if ours.count == theirs.count and ours.ended == theirs.ended:
        return None
    if ours.ended == REFUSED and theirs.count >= ours.count:
        return f"we refuse: {ours.about}"
    if theirs.ended == REFUSED:
        return f"MQTT {version}: it refuses {packet_at(version, data, theirs.count)}"
    return f"MQTT {version}: it stops at {packet_at(version, data, theirs.count)}"


# --- Rust ---


def built() -> Path:
    """The program of `rust/`; exits with the reason where it cannot be had."""
    if shutil.which("cargo") is None:
        sys.exit("skipped: cargo is not installed, so the codecs in Rust cannot be built")
    OUT.mkdir(parents=True, exist_ok=True)
    for name in ("Cargo.toml", "src/main.rs"):  # a copy, for cargo writes its lock beside it
        (OUT / name).parent.mkdir(exist_ok=True)
        shutil.copy(HERE / "rust" / name, OUT / name)
    made = subprocess.run(
        ["cargo", "build", "--release", "--quiet"], cwd=OUT, capture_output=True, text=True, check=False
    )
    if made.returncode:
        sys.exit(f"skipped: cargo could not build the codecs in Rust: {made.stderr.strip().splitlines()[-1:]}")
    return OUT / "target" / "release" / "rust-codecs"


def asked(program: Path, batch: list[tuple[int, bytes]]) -> Iterator[list[Verdict]]:
    """What each codec makes of each stream."""
    given = b"".join(struct.pack(">BI", version, len(data)) + data for version, data in batch)
    said = subprocess.run([program], input=given, capture_output=True, check=True).stdout
    words = {ord("w"): WAITS, ord("e"): REFUSED, ord("p"): "panic"}
    one = struct.Struct(">HB")
    assert len(said) == one.size * len(CODECS) * len(batch)
    verdicts = [Verdict(words[ended], count) for count, ended in one.iter_unpack(said)]
    yield from (verdicts[at : at + len(CODECS)] for at in range(0, len(verdicts), len(CODECS)))


def batches(count: int, seed: int) -> Iterator[list[tuple[int, bytes]]]:
    batch: list[tuple[int, bytes]] = []
    for number, data in enumerate(inputs("codec", seed, count)):
        batch.append((5 if number % 2 else 4, data))
        if len(batch) == BATCH or number == count - 1:
            yield batch
            batch = []


def against_rust(count: int, seed: int) -> list[Tally]:
    program = built()
    tallies = [Tally(name) for name in CODECS]
    for batch in batches(count, seed):
        for (version, data), verdicts in zip(batch, asked(program, batch), strict=True):
            ours = decoded(version, data)
            for tally, theirs in zip(tallies, verdicts, strict=True):
                tally.add(compared(version, data, ours, theirs), data)
    return tallies


# --- mosquitto ---


def served(version: int, data: bytes) -> Verdict:
    """What our side of a connection makes of it, with a ping behind; a DISCONNECT ends it as well."""
    network = Network(OPTIONS)
    line = network.peer("c", version=version)
    line.take()
    line.send_raw(data + PING)
    if any(isinstance(one, p.PingResp) for one in line.received) and line.ended is None:
        return Verdict(TAKEN)
    if line.ended is None:
        return Verdict(WAITS)
    ours = decoded(version, data)
    about = ours.about or kind_of(line.ended.detail)
    return Verdict(REFUSED, ours.count, about)


async def converse(port: int, version: int, data: bytes, gate: asyncio.Semaphore, wait_s: float = 0.5) -> str:
    """What mosquitto makes of the same; a word of it that takes longer than `wait_s` is taken for silence."""
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(encode_packet(p.Connect("", version), version))
            head = await reader.readexactly(2)
            await reader.readexactly(head[1])
            writer.write(data + PING)
            said = b""
            try:
                while chunk := await asyncio.wait_for(reader.read(65_536), wait_s):
                    said += chunk
                    if PINGRESP in said and PING not in data:
                        return TAKEN
            except TimeoutError:
                return TAKEN if PINGRESP in said else WAITS
            return REFUSED
        except (ConnectionError, asyncio.IncompleteReadError):
            return REFUSED
        finally:
            writer.transport.abort()


def _said(version: int, data: bytes) -> list[p.Packet]:
    """The packets in it, up to a DISCONNECT or to what is none."""
    decoder = Decoder(version, OPTIONS.packet_bytes_max)
    decoder.feed(data)
    found: list[p.Packet] = []
    try:
        while not (found and isinstance(found[-1], p.Disconnect)) and (packet := decoder.next_packet()) is not None:
            found.append(packet)
    except MqttError:
        pass
    return found


def against_mosquitto(count: int, seed: int) -> Tally:
    tally = Tally("mosquitto")

    async def main() -> None:
        with open_mosquitto(OPTIONS.packet_bytes_max) as port:
            await listens(port)
            gate = asyncio.Semaphore(50)
            for batch in batches(count, seed):
                for start in range(0, len(batch), 200):
                    part = batch[start : start + 200]
                    theirs = await asyncio.gather(*(converse(port, version, data, gate) for version, data in part))
                    for (version, data), ended in zip(part, theirs, strict=True):
                        ours = served(version, data)
                        kind = None if ours.ended == ended else _difference(version, data, ours, ended)
                        if kind is not None and ended == WAITS and tally.reason(kind) is None:  # or is it only slow?
                            ended = await converse(port, version, data, gate, SLOW_S)
                            kind = None if ours.ended == ended else _difference(version, data, ours, ended)
                        tally.add(kind, data)

    asyncio.run(main())
    return tally


def _difference(version: int, data: bytes, ours: Verdict, theirs: str) -> str:
    if ours.ended == REFUSED:
        return f"we refuse: {ours.about}"
    said = _said(version, data)
    last = type(said[-1]).__name__ if said else "part of a packet"
    if theirs == REFUSED and any(_has_control(one) for one in said):
        return "it closes for control characters in a topic"
    return f"MQTT {version}: {theirs} there, {ours.ended} here: {last} is the last"


def _has_control(packet: p.Packet) -> bool:
    match packet:
        case p.Publish():
            topics = [packet.topic]
        case p.Subscribe():
            topics = [one.filter for one in packet.subscriptions]
        case p.Unsubscribe():
            topics = list(packet.filters)
        case _:
            return False
    return any(
        ord(sign) < 0x20 or 0x7F <= ord(sign) <= 0x9F or ord(sign) & 0xFFFE == 0xFFFE for sign in "".join(topics)
    )


def run(rival: str, count: int, seed: int) -> int:
    """Exit code: 1 if something is different that nobody has looked at."""
    tallies: Iterable[Tally] = against_rust(count, seed) if rival == "rust" else [against_mosquitto(count, seed)]
    return int(sum(tally.told() for tally in tallies) > 0)
