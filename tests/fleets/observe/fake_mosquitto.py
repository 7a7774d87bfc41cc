"""A mosquitto that only writes its log: everything that was seen in real ones, and some things that were not."""

from __future__ import annotations

import random

IDS = [
    "plain", "with space", "quo'te \"x\"", "tab\there", "ünï ☃", "a 1 b", "a 1", "dev 1", "Client 7",
    "x (p2, c1, k60).", "local.near", "coterie-observe-1", "mosquitto version 2.0 starting", "line\u2028sep",
    "\u0085next", "sensor-1", "sensor-2",
]  # fmt: skip
TOPICS = [
    "t/1",
    "t/2",
    "with space/x",
    "it's/y",
    "ünï/☃",
    "deep/er/and/deeper",
    "a (11 bytes))",
    "$SYS/broker/x",
    "n 1 m",
]
FILTERS = [*TOPICS, "#", "t/+", "deep/#", "+/x", "$share/g/t/+", "$share/g/t/1", "$SYS/#"]
JUNK = [
    "", "   ", "no time at all", "1794824503 no colon", "2026-13-45T99:99:99: impossible", "Client only", "foo bar baz",
    "\x00\x01", "99999999999999: too long", "-5: negative",
]  # fmt: skip
CHATTER = [
    "Sending PUBACK to x (m1, rc0)", "Received PINGREQ from x", "Sending PINGRESP to x", "No will message specified.",
    "Config loaded from m.conf.", "Warning: 2 things 1 again", "Saving in-memory database to x.",
    "Sending PUBLISH to half",
    "Received PUBLISH from torn (d0, q0, r0, m0, 'x', ... (1 by", "New connection from 1.2.3.4:5 on port 1883.",
]  # fmt: skip


class FakeMosquitto:
    """`mode`: all, debug (blocks only) or wishes (no blocks). `version`: 2.0 or 2.1."""

    def __init__(self, seed: int, mode: str, version: str, stamp: str = "epoch") -> None:
        self.draw, self.mode, self.version, self.stamp = random.Random(seed), mode, version, stamp
        self.now = 1_794_824_503
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        if self.draw.random() < 0.3:
            self.now += self.draw.choice([0, 1, 1, 5, -3])
        self.lines.append(f"{self.written()}: {text}")

    def written(self) -> str:
        if self.stamp == "epoch":
            return str(self.now)
        from datetime import UTC, datetime
        from zoneinfo import ZoneInfo

        moment = datetime.fromtimestamp(self.now, UTC)
        if self.stamp == "offset":
            return moment.astimezone(ZoneInfo("Europe/Vienna")).strftime("%Y-%m-%dT%H:%M:%S%z")
        return moment.strftime("%Y-%m-%d %H:%M:%S")

    def run(self, steps: int) -> str:
        steps_of = [
            self.connect, self.subscribe, self.subscribe, self.unsubscribe, self.publish, self.publish, self.publish,
            self.deliver, self.deliver, self.leave, self.chatter, self.junk, self.rare,
        ]  # fmt: skip
        for _ in range(steps):
            self.draw.choice(steps_of)()
        return "".join(line + ("\r\n" if self.draw.random() < 0.02 else "\n") for line in self.lines)

    def anybody(self) -> str:
        return self.draw.choice(IDS)

    def connect(self) -> None:
        who, kind = self.anybody(), "bridge" if self.draw.random() < 0.03 else "client"
        user = ", u'us'er'" if self.draw.random() < 0.3 else ""
        clean = self.draw.choice("110")
        if self.draw.random() < 0.1:
            self.say(f"Client {who} already connected, closing old connection.")
        self.say(f"New {kind} connected from 127.0.0.1:{self.draw.randrange(9999)} as {who} (p2, c{clean}, k60{user}).")
        if self.mode != "wishes" and self.draw.random() < 0.3:
            self.say("Will message specified (4 bytes) (r0, q1).")
            self.say("\twill/t")

    def subscribe(self) -> None:
        who = self.anybody()
        if self.mode != "wishes":
            self.say(f"Received SUBSCRIBE from {who}")
        for _ in range(self.draw.randrange(1, 4)):
            wish, qos = self.draw.choice(FILTERS), self.draw.randrange(3)
            if self.mode != "wishes" and self.version == "2.1" and self.draw.random() < 0.1:
                self.say(f"\t{wish} (denied)")
                continue
            if self.mode != "wishes":
                self.say(f"\t{wish} (QoS {qos})")
            if self.mode != "debug" and self.draw.random() < 0.95:
                self.say(f"{who} {self.draw.choice([qos, qos, 0])} {wish}")

    def unsubscribe(self) -> None:
        who, wish = self.anybody(), self.draw.choice(FILTERS)
        if self.mode != "wishes":
            self.say(f"Received UNSUBSCRIBE from {who}")
            self.say(f"\t{wish}")
        if self.mode != "debug":
            self.say(f"{who} {wish}")

    def publish(self) -> None:
        dup = "1" if self.draw.random() < 0.1 else "0"
        size = self.draw.choice([0, 11, 200])
        self.say(
            f"Received PUBLISH from {self.anybody()} (d{dup}, q1, r0, m{self.draw.randrange(9)}, "
            f"'{self.draw.choice(TOPICS)}', ... ({size} bytes))"
        )

    def deliver(self) -> None:
        self.say(f"Sending PUBLISH to {self.anybody()} (d0, q0, r0, m0, '{self.draw.choice(TOPICS)}', ... (11 bytes))")

    def leave(self) -> None:
        who = self.anybody()
        if self.version == "2.1":
            reason = self.draw.choice([".", ": connection closed by client.", ": exceeded timeout."])
            self.say(f"Client {who} [127.0.0.1:{self.draw.randrange(9999)}] disconnected{reason}")
        else:
            ends = [
                "disconnected.", "closed its connection.", "has exceeded timeout, disconnecting.",
                "disconnected due to protocol error.", "disconnected: Connection reset by peer.",
            ]  # fmt: skip
            self.say(f"Client {who} {self.draw.choice(ends)}")

    def chatter(self) -> None:
        self.say(self.draw.choice(CHATTER))

    def junk(self) -> None:
        self.lines.append(self.draw.choice(JUNK))

    def rare(self) -> None:
        if self.draw.random() < 0.3:
            self.say(f"Expiring client {self.anybody()} due to timeout.")
        elif self.draw.random() < 0.3:
            self.say(f"mosquitto version {self.version}.0 {self.draw.choice(['starting', 'terminating'])}")
        elif self.draw.random() < 0.3:
            self.say(f"Bad socket read/write on client {self.anybody()}: Out of memory.")
