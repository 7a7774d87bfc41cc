"""What the lines of a mosquitto log look like: patterns that Python and Spark's SQL read alike.

Only what both dialects of regular expressions understand in the same way is used: no \\d, no $, no dot without (?s).
"""

from __future__ import annotations

import re
from typing import NamedTuple

END = r"(?!.)"  # the end of the text; a dollar would also stand before a last line break in one of the two dialects
OPTIONS = r"\(d([01]), q[0-2], r[01], m[0-9]+, '(.*)', \.\.\. \(([0-9]{1,9}) bytes\)\)"

EPOCH = r"(?s)^([0-9]{9,11}): "
ISO = (
    r"(?s)^([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]{1,6}))?(Z|[+-][0-9]{2}:?[0-9]{2})?: "
)
RECEIVED = rf"(?s)^Received PUBLISH from (.*) {OPTIONS}{END}"
SENT = rf"(?s)^Sending PUBLISH to (.*) {OPTIONS}{END}"
PASSED = rf"(?s)^(?:Received PUBLISH from|Sending PUBLISH to) (.*) {OPTIONS}{END}"  # either
CONNECTED = r"(?s)^New (client|bridge) connected from [^ ]+ as (.*) \(p[0-9]+, c([01]), k[0-9]+(?:, u'.*')?\)\." + END
# 2.0 and 2.1 say it differently; 2.1 adds the address in brackets.
ENDED = (
    r"(?s)^Client (.*?)(?: \[[^ \]]*:[0-9]+\])? (?:disconnected\.|disconnected: .*|disconnected due to .*"
    r"|disconnected, .*|closed its connection\.|has exceeded timeout, disconnecting\.|been disconnected by .*"
    r"|already connected, closing old connection\.)" + END
)
BROKEN = rf"(?s)^Bad socket read/write on client (.*): .*{END}"
EXPIRED = rf"(?s)^Expiring client (.*) due to timeout\.{END}"
STARTED = rf"(?s)^mosquitto version [^ ]+ (?:starting|terminating){END}"
ASKS = rf"(?s)^Received (SUBSCRIBE|UNSUBSCRIBE) from (.*){END}"
WILL = r"(?s)^Will message specified \("
TAB_WISH = rf"(?s)^\t(.*) \(QoS [0-2]\){END}"
TAB = "\t"
QOS = ("0", "1", "2")
# "ID QOS FILTER": an identifier with a blank and a digit in it is told apart by the block before, or by who connected.
PLAIN_WISH = rf"(?s)^(.+?) ([0-2]) (.+){END}"
CHATTER = (
    r"(?s)^(?:Sending |Received |New connection |No will |Will message |Config loaded|Opening |mosquitto version "
    r"|Reloading config|Saving |Restored |Loading |Warning: |Error: |Notice: |Info: |Denied |Dropped "
    r"|Connecting bridge |Bridge |Client |Socket error |OpenSSL |Protocol error |Persistent|Plugin |Outgoing messages "
    r"|Bad client |Invalid |Empty |Starting in |Unable |Websocket|websockets|TLS |Using |Closing |Log "
    r"|Expiring |Will delay |Successfully |Removing |Using default|Listener |Broker |\|-- | *(?!.))"
)
OWN = r"(?s)^(?:\$SYS/|\$share/[^/]+/\$SYS/)"  # the broker's own topics never leave it
OBSERVER = "coterie-observe"  # how our own taps call themselves
LEFT_OUT = rf"(?s)^(?:local\.|{OBSERVER})"  # a bridge's near end, and ourselves

# What became of a line.
USED = ("subscriptions", "unsubscriptions", "publications", "deliveries", "connections")
NOT_OURS = ("bridges", "repetitions", "own topics", "refused", "other")
UNKNOWN = "not understood"
CATEGORIES = (*USED, *NOT_OURS, UNKNOWN)
EXAMPLES_MAX = 3


class StampShape(NamedTuple):
    """How a time is written: a pattern, and what its groups are."""

    pattern: str
    parts: tuple[str, ...]


def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
