"""Money: a month of a ledger, and price files with mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import ConfigError, InputError
from coterie.model.ledger import Control, Crossing, Dissemination, Ledger, Loss, Maintenance, Volume
from coterie.model.prices import EXAMPLE, EXAMPLE_FILE, MONTH_S, Prices, monthly, read_prices

BILL = Ledger(
    maintenance=Maintenance(link_keepalives=2.0),
    dissemination=Dissemination(wanted=10.0),
    control=Control(subscription=3.0),
    volume=Volume(wanted=1000.0, upkeep=100.0, control=50.0, delivered=4000.0),
    crossing=Crossing(copies=4.0, bytes=400.0, links=0.5),
    loss=Loss(owed=40.0, delivered=40.0),
)


def test_a_month_by_hand() -> None:
    prices = Prices(
        per_gb_inside_zone=1.0,
        per_gb_across_zones=10.0,
        per_gb_to_internet=100.0,
        per_million_messages=5.0,
        per_broker_hour=0.1,
        per_connection_month=0.25,
        clients="internet",
    )
    paid = monthly(BILL, prices, node_count=8, client_count=100)
    across = 400 + 0.5 * 150  # copies that cross, and half of the links do
    assert paid.traffic == pytest.approx(MONTH_S / 1e9 * ((1150 - across) * 1 + across * 10))
    assert paid.work == pytest.approx(15 * MONTH_S / 1e6 * 5)
    hours = MONTH_S / 3600
    deliveries = 40 * MONTH_S / 1e6 * 5
    assert paid.fixed == pytest.approx(4000 * MONTH_S / 1e9 * 100 + deliveries + 8 * 0.1 * hours + 25)
    assert paid.total == paid.traffic + paid.work + paid.fixed
    inside = monthly(BILL, Prices(per_gb_inside_zone=1.0), 8, 100)
    assert inside.fixed == pytest.approx(4000 * MONTH_S / 1e9)


def test_the_printed_example_is_the_example(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(EXAMPLE_FILE)
    read = read_prices(path)
    assert not read.is_example
    assert monthly(BILL, read, 8, 100) == monthly(BILL, EXAMPLE, 8, 100)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("per_gb_across_zones = -1", "per_gb_across_zones"),
        ("per_gb_across_zones = 'much'", "per_gb_across_zones"),
        ("per_gb_acros_zones = 1", "per_gb_acros_zones: no such price"),
        ("clients = 'moon'", "clients"),
        ("currency = ' '", "currency"),
        ("per_broker_hour = inf", "per_broker_hour"),
        ("= 3", "is not TOML"),
        ("\xff", "is not TOML"),
    ],
)
def test_wrong_prices_are_one_sentence_with_the_key(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=told) as caught:
        read_prices(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="coterie prices"):
        read_prices(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="at least 0"):
        Prices(per_gb_inside_zone=float("nan"))
