"""The fleet file: what is read from it, and one clear sentence for every mistake."""

from __future__ import annotations

import pytest

from coterie.errors import InputError
from coterie.fleets.fleet import example_fleet, fleet_of, host_port, read_fleet

TWO = '[[broker]]\nname = "b0"\naddress = "h:1"\n[[broker]]\nname = "b1"\naddress = "h:2"\n'


def test_the_example_is_a_fleet_and_its_paths_start_where_it_lies(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text(example_fleet())
    fleet = read_fleet(path)
    assert fleet.names == ("b0", "b1")
    assert fleet.named("b0").acl == tmp_path / "b0" / "coterie.acl"
    assert fleet.named("b1").bridge_name == "bridge-b1"
    assert fleet.balancer is not None
    assert fleet.balancer.socket == tmp_path / "haproxy" / "admin.sock"
    assert fleet.limits.moves_per_s == 20


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("broker = 3", "broker: expected a list"),
        ("x = [", "is not TOML"),
        ("[[broker]]\nname = 'b0'\naddress = 'h:1'\n", "at least two"),
        ("[[broker]]\nname = 'b0'\n", "broker 'b0': this key is missing: `address`"),
        ("[[broker]]\naddress = 'h:1'\n", "broker number 1: this key is missing: `name`"),
        (TWO.replace("h:2", "h"), "broker 'b1', key 'address': expected HOST:PORT, got 'h'"),
        (TWO.replace("h:2", "h:0"), "broker 'b1', key 'address'"),
        (TWO.replace("b1", "b0"), "broker 'b0', key 'name': two brokers have it"),
        (TWO.replace("b1", "b 1"), "broker 'b 1', key 'name': letters"),
        (TWO + "colour = 1\n", "broker 'b1': there is no key `colour`"),
        (TWO + "zone = 1\n", "broker 'b1', key 'zone': expected text"),
        (f'hub = "b9"\n{TWO}', "hub: 'b9' is none of the brokers b0, b1"),
        (f'source = "x"\n{TWO}', "source: there is no such key"),
        (TWO + "[limits]\nmoves_per_s = 0\n", "limits.moves_per_s: 0 is too small"),
        (TWO + "[limits]\nclients_max = 0.5\n", "limits.clients_max: 0.5 is too small"),
        (TWO + "[limits]\nmoves = 1\n", "limits: there is no key `moves`"),
        (TWO + "[balancer]\nsocket = 's'\n", "balancer: this key is missing: `map`"),
        (TWO + "[balancer]\nsocket = 's'\nmap = 'm'\nunknown = 'hub'\n", "balancer.unknown: 'hub' needs the key hub"),
        (TWO + "[balancer]\nsocket = 's'\nmap = 'm'\nunknown = 'x'\n", "balancer.unknown: Invalid enum value 'x'"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(tmp_path, text, says):
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_fleet(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_fleet(tmp_path / "none.toml")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_fleet(tmp_path / "binary")


def test_addresses_may_be_of_the_sixth_kind():
    assert host_port("[::1]:1883") == ("::1", 1883)
    assert fleet_of({"broker": [{"name": "a", "address": "[::1]:1"}, {"name": "b", "address": "h:2"}]}, "f").names == (
        "a",
        "b",
    )
