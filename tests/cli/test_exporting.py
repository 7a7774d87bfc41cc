"""`coterie export` and `coterie loop` without a broker: files, checks, and mistakes in one sentence."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from coterie.api.choosing import KnownFleet, candidates_of, known_fleet
from coterie.cli.main import app
from coterie.errors import CoterieError
from coterie.fleets.export.registry import TARGETS
from tests.fleets.plans import publish_plan
from tests.fleets.test_export import HOME, PUBLISHES, WISHES, users_file

FLEET = """
hub = "b0"
[[broker]]
name = "b0"
address = "127.0.0.1:1"
acl = "acl"
reload = "true"
[[broker]]
name = "b1"
address = "127.0.0.1:2"
[[broker]]
name = "b2"
address = "127.0.0.1:3"
[balancer]
socket = "sock"
map = "clients.map"
unknown = "hub"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fleet.toml").write_text(FLEET)
    publish_plan(tmp_path / "plan", WISHES, PUBLISHES, ["b0", "b1", "b2"], "star:crossing=wanted")
    return tmp_path


def run(folder, *arguments: str) -> tuple[int, str]:
    common = ("--fleet", str(folder / "fleet.toml"), "--out", str(folder / "out"))
    result = CliRunner().invoke(app, ["export", *arguments, *common])
    if isinstance(result.exception, CoterieError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_the_example_is_printed():
    assert "[[broker]]" in CliRunner().invoke(app, ["export", "--example-fleet"]).stdout


def test_files_are_written_with_what_they_are_for(folder):
    code, text = run(folder, str(folder / "plan"), "--to", "mosquitto-acl", "--json")
    assert code == 0
    files = json.loads(text)["files"]
    assert files["mosquitto-acl/hub.acl"] == str(folder / "acl")
    assert all((folder / "out" / name).is_file() for name in files)
    assert not (folder / "acl").exists()  # nothing is put in place without --apply
    code, text = run(folder, str(folder / "plan"), "--to", "table")
    assert code == 0
    assert "clients.csv" in text


def test_check_says_whether_it_is_ready(folder):
    code, text = run(folder, str(folder / "plan"), "--to", "mosquitto-acl", "--check")
    assert (code, text.splitlines()[-1]) == (0, "haproxy, mosquitto-acl: ready to apply")
    code, text = run(folder, str(folder / "plan"), "--to", "nats-leaf", "--check", "--json")
    assert code == 3
    document = json.loads(text)
    assert not document["is_ready"]
    assert any("'restart'" in one["text"] for one in document["remarks"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["PLAN"], 2, "--to"),
        (["PLAN", "--to", "apache"], 2, "one of haproxy"),
        (["--to", "table"], 2, "PLAN"),
        (["PLAN", "--to", "table", "--check", "--apply"], 2, "one of them"),
        (["PLAN", "--to", "table", "--version", "9"], 3, "no plan 9"),
        (["NONE", "--to", "table"], 3, "holds no plan yet"),
        (["--rollback"], 3, "nothing to take back"),
        (["PLAN", "--to", "mosquitto-acl", "--apply"], 6, "HAProxy does not answer"),
        (["PLAN", "--to", "mosquitto-acl", "--dry-run"], 6, "HAProxy does not answer"),
        (["PLAN", "--to", "nats-users"], 3, "nats.users is missing"),
    ],
)
def test_a_mistake_is_one_sentence(folder, arguments, code, says):
    (folder / "fleet.toml").write_text(FLEET + "[limits]\npatience_s = 0\n")
    named = {"PLAN": str(folder / "plan"), "NONE": str(folder / "none")}
    found, text = run(folder, *(named.get(word, word) for word in arguments))
    assert (found, says in text) == (code, True), text
    assert "\n" not in text.strip()
    assert not (folder / "out" / "before").exists()


def test_a_fleet_file_is_asked_for(folder):
    for command in ("export", "loop"):
        result = CliRunner().invoke(app, [command])
        assert "--example-fleet" in str(result.exception)


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_can_be_written_from_the_command_line(folder, name):
    more = users_file(folder, *HOME)
    text = FLEET.replace("[balancer]", f'[nats]\nusers = "{more["users"]}"\n[emqx]\nkey = "k"\n[balancer]')
    text = text.replace('name = "b', 'config = "."\nrestart = "true"\nmonitor = "h:1"\nlink = "h:2"\nname = "b')
    (folder / "fleet.toml").write_text(text)
    code, said = run(folder, str(folder / "plan"), "--to", name)
    assert code == 0, said


def test_a_star_is_planned_around_the_hub_of_the_fleet_and_in_its_zones(folder):
    """The pipeline counts nodes by their names, whatever the order in the file."""
    path = folder / "fleet.toml"
    text = "".join(f'[[broker]]\nname = "{name}"\naddress = "127.0.0.1:1"\n' for name in ("south", "north", "east"))
    path.write_text(f'hub = "north"\n{text}zone = "z"\n')
    known = known_fleet(path)
    assert (known.hub, known.zone_of) == (1, (("east", "z"),))
    star, mesh = candidates_of(["star:crossing=wanted", "mesh"])
    around = known.around(star)
    assert (around.parameters.hub, around.parameters.crossing) == (1, "wanted")  # type: ignore[attr-defined]
    assert known.around(mesh) == mesh
    assert KnownFleet().around(star) == star
    path.write_text(text)
    assert known_fleet(path).around(star) == star


def test_brokers_that_are_there_are_not_put_in_zones_unless_asked_to():
    assert KnownFleet().zones(None, is_for_target=False) is None  # as many as the log assumes
    assert KnownFleet().zones(None, is_for_target=True) == 1
    assert KnownFleet(True).zones(None, is_for_target=False) == 1
    assert KnownFleet(True).zones(2, is_for_target=True) == 2


def test_a_plan_without_broker_names_is_applied_only_if_the_order_is_said(folder):
    (folder / "plan" / "plans" / "000001" / "nodes.parquet").unlink()
    arguments = (str(folder / "plan"), "--to", "mosquitto-acl")
    assert "the plan names no brokers: its nodes are taken for b0, b1, b2" in run(folder, *arguments, "--check")[1]
    code, text = run(folder, *arguments, "--apply")
    assert code == 2
    assert "got '3 nodes without names'" in text
    assert "say --in-order if node 0 is b0, node 1 is b1, node 2 is b2" in text
    assert "HAProxy does not answer" in run(folder, *arguments, "--apply", "--in-order")[1]
