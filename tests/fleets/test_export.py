"""Every target: what it writes, how old and new go together, and what `--check` has to say."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from coterie.errors import ConfigError, InputError
from coterie.fleets.export import haproxy, mosquitto_acl, mosquitto_bridges, nats_leaf, nats_users, table
from coterie.fleets.export.registry import TARGETS, chosen_targets, expressible
from coterie.fleets.export.target import BALANCER, Piece
from coterie.fleets.fleet import BrokerFleet, fleet_of
from coterie.systems import system_named
from tests.fleets.plans import by_hand

HOME = {"ann": "b0", "bob": "b1", "c d": "b2", "press": "b2"}
WISHES = {"ann": ("x/1",), "bob": ("x/1", "y/+"), "c d": ("$share/g/y/1",)}
PUBLISHES = {"press": ("x/1", "y/1", "z")}


def layout():
    return by_hand(HOME, WISHES, PUBLISHES)


def fleet_in(folder, **more) -> BrokerFleet:
    brokers = []
    for number in range(3):
        home = folder / f"b{number}"
        home.mkdir(exist_ok=True)
        brokers.append(
            {"name": f"b{number}", "address": f"127.0.0.1:{1883 + number}", "config": str(home), "restart": "true",
             "reload": "true", "monitor": "127.0.0.1:1"}
        )  # fmt: skip
    brokers[0] |= {"acl": str(folder / "acl"), "link": "127.0.0.1:7422"}
    balancer = {"socket": "sock", "map": str(folder / "clients.map"), "bind": "127.0.0.1:1880"}
    return fleet_of({"broker": brokers, "hub": "b0", "balancer": balancer, **more}, str(folder / "fleet.toml"))


# --- haproxy ---


def test_a_map_survives_any_client_id(tmp_path):
    home = {"a b": "b0", "#c": "b1", 'q"%': "b2", "ü/é": "b0"}
    text = haproxy.map_text(home)
    assert all(len(line.split()) == 2 and not line.startswith("#") for line in text.splitlines())
    assert haproxy.homes_in(f"# a comment\n\n{text}") == home


def test_who_was_admitted_since_the_plan_keeps_his_place(tmp_path):
    fleet = fleet_in(tmp_path)
    (tmp_path / "clients.map").write_text("ann b2\nnewcomer b1\ngone b9\n")
    (piece,) = [one for one in haproxy.pieces(fleet, layout()) if one.tells == BALANCER]
    assert haproxy.homes_in(piece.text) == {**HOME, "newcomer": "b1"}


def test_the_configuration_names_every_broker_and_where_strangers_go(tmp_path):
    text = haproxy.configuration(fleet_in(tmp_path))
    assert "{ var(sess.home) -m str b0 b1 b2 }" in text
    assert "use-server b0 if TRUE" not in text
    hub = fleet_in(tmp_path, balancer={"socket": "s", "map": "m", "unknown": "hub"})
    assert "use-server b0 if TRUE" in haproxy.configuration(hub)


# --- mosquitto-acl ---


def test_the_list_holds_what_each_spoke_wants_and_keeps_what_others_wrote(tmp_path):
    (tmp_path / "acl").write_text("topic readwrite #\n\nuser dashboard\ntopic read x/#\n")
    fleet = fleet_in(tmp_path)
    piece = mosquitto_acl.pieces(fleet, layout())[0]
    assert piece.text.startswith("topic readwrite #\n\nuser dashboard\ntopic read x/#\n")
    assert mosquitto_acl.in_block(piece.text, "coterie/probe") == {"bridge-b1": ("x/1", "y/+"), "bridge-b2": ("y/1",)}
    (tmp_path / "acl").write_text(piece.text)
    assert mosquitto_acl.pieces(fleet, layout())[0].text == piece.text  # nothing piles up
    assert "deny" not in piece.text


def test_a_hub_without_a_list_lets_everybody_do_what_they_could(tmp_path):
    fleet = fleet_in(tmp_path, hub_users=["boss"])
    text = mosquitto_acl.pieces(fleet, layout())[0].text
    assert text.startswith("topic readwrite #\ntopic read $SYS/#\n\nuser boss\ntopic readwrite #\n")


def test_old_and_new_lists_together_let_pass_what_either_does(tmp_path):
    fleet = fleet_in(tmp_path)
    old = mosquitto_acl.pieces(fleet, layout())[0]
    new = mosquitto_acl.pieces(fleet, layout().moved({**HOME, "bob": "b2"}))[0]
    both = mosquitto_acl.in_block(mosquitto_acl.merge(new, old.text), "coterie/probe")
    assert both == {"bridge-b1": ("x/1", "y/+"), "bridge-b2": ("x/1", "y/+", "y/1")}
    unpruned = mosquitto_acl.in_block(mosquitto_acl.merge(new, "topic readwrite #\n"), "coterie/probe")
    assert unpruned == {"bridge-b1": ("#",), "bridge-b2": ("#",)}


def test_the_probe_of_a_list_passes_under_this_list_alone(tmp_path):
    fleet = fleet_in(tmp_path)
    texts = [mosquitto_acl.pieces(fleet, layout().moved({**HOME, "bob": broker}))[0].text for broker in ("b1", "b2")]
    probes = [mosquitto_acl.probe_topic(text, "coterie/probe", "bridge-b1") for text in texts]
    assert probes[0] != probes[1]
    assert probes[0] is not None
    assert f"topic read {probes[0]}\n" in texts[0]
    (tmp_path / "acl").write_text(texts[0])
    assert probes[0] in [way.topic for way in mosquitto_acl.ways(fleet)]


def test_check_says_what_is_wrong_with_a_star(tmp_path):
    fleet = fleet_in(tmp_path)
    (tmp_path / "acl").write_text("pattern readwrite #\nuser bridge-b1\ntopic read #\n")
    wild = by_hand({"a": "b1", "b": "b2"}, {"a": ("#",), "b": ("bad ",)}, {"b": ("nobody",)})
    said = [remark.text for remark in mosquitto_acl.check(fleet, wild)]
    assert any("pattern line" in text for text in said)
    assert any("lines for user bridge-b1 outside" in text for text in said)
    assert any("wants '#'" in text for text in said)
    assert any("'bad ' of b2 cannot be written" in text for text in said)
    assert any("balancer.unknown = 'hub'" in text for text in said)
    with pytest.raises(InputError, match="hub is missing"):
        mosquitto_acl.pieces(fleet_in(tmp_path, hub=""), layout())


# --- mosquitto-bridges ---


def test_every_link_is_dialled_by_one_side_with_a_line_per_topic_and_direction(tmp_path):
    pieces = mosquitto_bridges.pieces(fleet_in(tmp_path), layout())
    texts = {piece.tells: piece.text for piece in pieces}
    assert all(piece.needs_restart for piece in pieces)
    lines = [line for text in texts.values() for line in text.splitlines() if line.startswith("topic x/1 ")]
    assert lines
    assert all(line.split()[2] in ("in", "out", "both") for line in lines)
    assert "z" not in [line.split()[1] for text in texts.values() for line in text.splitlines() if "topic" in line[:5]]
    dialled = [line for text in texts.values() for line in text.splitlines() if line.startswith("connection ")]
    assert len(dialled) == len(set(dialled))


def test_check_names_filters_whose_new_topics_would_not_cross(tmp_path):
    said = [remark.text for remark in mosquitto_bridges.check(fleet_in(tmp_path), layout())]
    assert any("whoever wants y/+" in text for text in said)
    covered = fleet_in(tmp_path, limits={"prefixes": ["y/+"]})
    assert not any("whoever wants" in remark.text for remark in mosquitto_bridges.check(covered, layout()))


# --- nats ---


def users_file(tmp_path, *names: str) -> dict[str, object]:
    (tmp_path / "users.csv").write_text("user,password\n" + "".join(f'{name},"se""cret"\n' for name in names))
    return {"users": str(tmp_path / "users.csv"), "everywhere": ["admin"], "leaf_password": "secret"}


def test_a_user_is_let_in_at_its_home_and_strangers_everywhere(tmp_path):
    fleet = fleet_in(tmp_path, nats=users_file(tmp_path, *HOME, "admin", "guest"))
    pieces = nats_users.pieces(fleet, layout())
    listed = {piece.tells: set(nats_users.users_in(piece.text)) for piece in pieces}
    assert listed == {
        "b0": {"ann", "admin", "guest"}, "b1": {"bob", "admin", "guest"}, "b2": {"c d", "press", "admin", "guest"}
    }  # fmt: skip
    assert nats_users.users_in(pieces[0].text)["ann"] == 'se"cret'
    both = nats_users.merge(pieces[0], pieces[1].text)
    assert set(nats_users.users_in(both)) == {"ann", "bob", "admin", "guest"}
    said = [remark.text for remark in nats_users.check(fleet, layout())]
    assert said == ["1 users are not in the plan, 'guest' for one: let in everywhere"]


def test_users_that_cannot_be_read_are_told(tmp_path):
    with pytest.raises(InputError, match=r"nats\.users is missing"):
        nats_users.pieces(fleet_in(tmp_path), layout())
    (tmp_path / "users.csv").write_text("ann,1\nbob\n")
    with pytest.raises(InputError, match="line 2: expected user,password"):
        nats_users.pieces(fleet_in(tmp_path, nats={"users": str(tmp_path / "users.csv")}), layout())


def test_a_plan_around_another_hub_is_told_with_how_to_plan_around_this_one(tmp_path):
    fleet = fleet_in(tmp_path)
    said = [one.text for one in mosquitto_acl.check(fleet, replace(layout(), hub="b1"))]
    told = [text for text in said if "the plan's hub is b1, the fleet's is b0" in text]
    assert told
    assert f"--for mosquitto-acl --fleet {fleet.source}" in told[0]
    assert not any("the plan's hub" in one.text for one in mosquitto_acl.check(fleet, replace(layout(), hub="b0")))


def test_leaves_point_at_the_hub(tmp_path):
    texts = {piece.tells: piece.text for piece in nats_leaf.pieces(fleet_in(tmp_path), layout())}
    assert 'host: "127.0.0.1", port: 7422' in texts["b0"]
    assert "nats-leaf://127.0.0.1:7422" in texts["b1"]


# --- table ---


def test_tables_say_it_all(tmp_path):
    texts = {piece.name: piece.text for piece in table.pieces(fleet_in(tmp_path), layout())}
    rows = list(csv.DictReader(texts["table/clients.csv"].splitlines()))
    assert {row["client"]: row["broker"] for row in rows} == HOME
    document = json.loads(texts["table/plan.json"])
    assert document["clients"] == HOME
    links = {(row["from"], row["to"]): row["topics"] for row in document["links"]}
    assert links["b0", "b1"] == ["x/1", "y/+"]
    assert links["b1", "b0"] == ["#"]


# --- all of them ---


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_writes_says_what_it_is_and_can_be_planned_for(tmp_path, name):
    fleet = fleet_in(tmp_path, nats=users_file(tmp_path, *HOME), emqx={"key": "k"})
    target = TARGETS[name]
    pieces = target.pieces(fleet, layout())
    assert pieces
    assert target.says
    assert not [remark for remark in target.check(fleet, layout()) if remark.is_error]
    assert all(piece.text.endswith("\n") for piece in pieces)
    assert len({piece.name for piece in pieces}) == len(pieces)
    for system in expressible(name).systems:
        chosen, _, words = system.partition(":")
        system_named(chosen).configure(dict(word.split("=") for word in words.split(",") if word))


def test_merging_with_itself_changes_nothing_that_is_served(tmp_path):
    fleet = fleet_in(tmp_path, nats=users_file(tmp_path, *HOME), emqx={"key": "k"})
    for target in TARGETS.values():
        for piece in target.pieces(fleet, layout()):
            if piece.place is not None:
                assert target.merge(piece, piece.text) == piece.text, (target.name, piece.name)


def test_placement_comes_along_where_links_are_cut(tmp_path):
    fleet = fleet_in(tmp_path)
    assert [target.name for target in chosen_targets(["mosquitto-acl"], fleet)] == ["haproxy", "mosquitto-acl"]
    assert [target.name for target in chosen_targets(["table"], fleet)] == ["table"]
    with pytest.raises(ConfigError, match="one of haproxy, mosquitto-acl"):
        chosen_targets(["apache"], fleet)
    with pytest.raises(ConfigError, match="one of haproxy"):
        chosen_targets([], fleet)
    with pytest.raises(ConfigError, match="one kind of broker"):
        chosen_targets(["mosquitto-acl", "nats-users"], fleet)
    with pytest.raises(ConfigError, match="one target that says something about links"):
        chosen_targets(["mosquitto-acl", "mosquitto-bridges"], fleet)
    with pytest.raises(ConfigError, match=r"--for: expected .* got 'x'"):
        expressible("x")


def test_what_is_new_alone_where_a_target_cannot_merge():
    assert TARGETS["haproxy"].merge(Piece("n", "new"), "old") == "new"
