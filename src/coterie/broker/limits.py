"""How much one address, one client and all together may ask of a node. No I/O; time comes in with every call."""

from __future__ import annotations

from collections import Counter, OrderedDict
from ipaddress import IPv6Address, ip_address

from coterie.broker.settings import LimitsSection
from coterie.mqtt.reasons import Reason

ADDRESSES_MAX = 65_536


class Bucket:
    """Tokens that come at a rate and are kept up to a burst; a rate of 0 means that there is no limit."""

    __slots__ = ("_burst", "_left", "_rate", "_since_s")

    def __init__(self, rate: float, burst: float, now_s: float) -> None:
        self._rate, self._burst, self._left, self._since_s = rate, burst, burst, now_s

    def left(self, now_s: float) -> float:
        self._left = min(self._burst, self._left + (now_s - self._since_s) * self._rate)
        self._since_s = now_s
        return self._left

    def take(self, now_s: float, count: float = 1.0) -> bool:
        """False, and nothing taken, if there are not so many."""
        if not self._rate:
            return True
        if self.left(now_s) < count:
            return False
        self._left -= count
        return True


def address_of(host: str) -> str:
    """Whom an address stands for: one machine, or the network that an IPv6 machine takes its addresses from."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))


class PerAddress:
    """A bucket for each address; the ones not seen for longest are forgotten."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, address: str, now_s: float) -> bool:
        return not self._rate or self._of(address, now_s).take(now_s)

    def is_empty(self, address: str, now_s: float) -> bool:
        bucket = self._buckets.get(address)
        return bucket is not None and bucket.left(now_s) < 1.0

    def _of(self, address: str, now_s: float) -> Bucket:
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = Bucket(self._rate, self._burst, now_s)
            if len(self._buckets) > ADDRESSES_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(address)
        return bucket


class Gate:
    """The limits of a node at work; every refusal names its reason."""

    def __init__(self, limits: LimitsSection, now_s: float) -> None:
        self.connected: Counter[str] = Counter()  # address -> connections
        self.set(limits, now_s)

    def set(self, limits: LimitsSection, now_s: float) -> None:
        """Limits have changed; everybody starts with a full bucket."""
        self.limits = limits
        self._connects = Bucket(limits.connects_per_s, limits.connects_burst, now_s)
        self._publishes = Bucket(limits.publishes_per_s, limits.publishes_burst, now_s)
        self._address_connects = PerAddress(limits.connects_per_s_address, limits.connects_burst_address)
        self._address_failures = PerAddress(limits.failures_per_s_address, limits.failures_burst_address)
        self._failures = Bucket(limits.failures_per_s, limits.failures_burst, now_s)
        self.watches_publishes = bool(limits.publishes_per_s or limits.publishes_per_s_client)

    def opened(self, host: str) -> None:
        self.connected[address_of(host)] += 1

    def closed(self, host: str) -> None:
        address = address_of(host)
        self.connected[address] -= 1
        if self.connected[address] <= 0:
            del self.connected[address]

    def connect(self, host: str, now_s: float) -> Reason:
        """A CONNECT came. Who guessed too often is not even told whether this was right."""
        address, most = address_of(host), self.limits.connections_address_max
        if most and self.connected[address] > most:
            return Reason.QUOTA_EXCEEDED
        if self._address_failures.is_empty(address, now_s):
            return Reason.CONNECTION_RATE_EXCEEDED
        if not self._address_connects.take(address, now_s) or not self._connects.take(now_s):
            return Reason.CONNECTION_RATE_EXCEEDED
        return Reason.SUCCESS

    def may_fail(self, now_s: float) -> bool:
        """Whether a login that is not known to be right may be tried at all."""
        return not self.limits.failures_per_s or self._failures.left(now_s) >= 1.0

    def failed(self, host: str, now_s: float) -> None:
        """A login was wrong."""
        self._address_failures.take(address_of(host), now_s)
        self._failures.take(now_s)

    def new_client(self, now_s: float) -> Bucket:
        return Bucket(self.limits.publishes_per_s_client, self.limits.publishes_burst_client, now_s)

    def publish(self, client: Bucket, count: int, now_s: float) -> bool:
        return client.take(now_s, count) and self._publishes.take(now_s, count)
