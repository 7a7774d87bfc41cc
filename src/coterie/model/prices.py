"""What a bill costs in money: a small file of prices, and a month of any ledger.

Traffic inside a zone, between zones and out to clients is paid by the gigabyte (10^9 bytes), work by the million
messages that brokers handle, brokers by the hour, connections by the month. `EXAMPLE` has the order of what large
clouds ask; it is there to be replaced (`coterie prices` prints it as a file).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from coterie.errors import ConfigError, InputError, in_words
from coterie.model.ledger import Ledger

MONTH_S = 365.25 / 12 * 86400
GB = 1e9
CLIENTS = ("inside", "internet")


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In `currency`; every price 0 or more."""

    currency: str = "USD"
    per_gb_inside_zone: float = 0.0
    per_gb_across_zones: float = 0.02  # both ends of a transfer together
    per_gb_to_internet: float = 0.09
    per_million_messages: float = 0.0
    per_broker_hour: float = 0.0
    per_connection_month: float = 0.0
    clients: str = "inside"  # where clients are: inside the zone of their broker, or on the internet
    is_example: bool = False

    def __post_init__(self) -> None:
        if not self.currency.strip():
            raise ConfigError("currency", self.currency, "a name, for example USD")
        if self.clients not in CLIENTS:
            raise ConfigError("clients", self.clients, f"one of {', '.join(CLIENTS)}")
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("per_") and not 0 <= value < float("inf"):
                raise ConfigError(field.name, value, f"a price in {self.currency}, at least 0")


EXAMPLE = Prices(
    per_gb_across_zones=0.02, per_gb_to_internet=0.09, per_million_messages=0.002, per_broker_hour=0.17, is_example=True
)

EXAMPLE_FILE = """\
# What traffic and brokers cost you. These are EXAMPLES of the order that large clouds ask; put in your own.
currency = "USD"
per_gb_inside_zone = 0.0      # between brokers of one zone
per_gb_across_zones = 0.02    # between zones: 0.01 out and 0.01 in
per_gb_to_internet = 0.09     # to clients, if they are there
per_million_messages = 0.002  # work: a broker of 0.17 an hour that handles 25,000 messages a second
per_broker_hour = 0.17        # the same whatever the plan, as long as the number of brokers is
per_connection_month = 0.0    # where connections are paid for
clients = "inside"            # or "internet"
"""


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """A month, in `currency`. What every plan pays alike (brokers, connections, deliveries) stands apart."""

    currency: str
    traffic: float  # between brokers, by the gigabyte
    work: float  # by the message
    fixed: float

    @property
    def total(self) -> float:
        return self.traffic + self.work + self.fixed


def monthly(bill: Ledger, prices: Prices, node_count: int, client_count: int) -> Money:
    volume, crossing = bill.volume, bill.crossing
    across = crossing.bytes + crossing.links * (volume.upkeep + volume.control)
    inside = volume.total - across
    gb = MONTH_S / GB
    to_clients = prices.per_gb_to_internet if prices.clients == "internet" else prices.per_gb_inside_zone
    between = bill.dissemination.copies + bill.maintenance.upkeep + bill.control.messages
    return Money(
        currency=prices.currency,
        traffic=gb * (inside * prices.per_gb_inside_zone + across * prices.per_gb_across_zones),
        work=between * MONTH_S / 1e6 * prices.per_million_messages,
        fixed=gb * volume.delivered * to_clients
        + bill.loss.delivered * MONTH_S / 1e6 * prices.per_million_messages
        + node_count * prices.per_broker_hour * MONTH_S / 3600
        + client_count * prices.per_connection_month,
    )


def chosen_prices(prices: Prices | str | Path | None) -> Prices:
    """Prices, those in a file, or the example's."""
    if isinstance(prices, Prices):
        return prices
    return EXAMPLE if prices is None else read_prices(Path(prices))


def read_prices(path: Path) -> Prices:
    """InputError names the file and the key."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "there is no such file; `coterie prices` prints an example") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(str(path), f"is not TOML: {error}") from None
    known = {field.name for field in msgspec.structs.fields(Prices)} - {"is_example"}
    if strangers := sorted(set(table) - known):
        raise InputError(str(path), f"{strangers[0]}: no such price; known are {', '.join(sorted(known))}")
    try:
        return msgspec.convert(table, Prices)
    except msgspec.ValidationError as error:
        reason, _, key = str(error).partition(" - at `$.")
        raise InputError(str(path), f"{key.rstrip('`')}: {in_words(reason)}") from None
    except ConfigError as error:
        raise InputError(str(path), str(error)) from None
