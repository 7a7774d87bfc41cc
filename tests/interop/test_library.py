"""`ct.up`: a network of real processes from a plan, changed over to another, billed, stopped."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import coterie as ct
from coterie.api.places import ADMIN_OFFSET
from coterie.errors import ConfigError
from tests.api.logs import rows
from tests.interop.test_up import free_base

pytestmark = pytest.mark.interop


def test_up_apply_bill_and_down(tmp_path: Path) -> None:
    base = free_base()
    learn, _ = ct.read_log(*rows(), nodes=[{"node": "east"}, {"node": "west"}]).split()
    plan, other = ct.plan(learn, system="mesh"), ct.plan(learn, system="scribe", place=True)
    other = other.save(tmp_path / "plans")
    told: list[str] = []
    with ct.up(plan, base_port=base, data=tmp_path / "net") as net:
        assert [one["name"] for one in net.health()] == ["east", "west"]
        assert [one["system"] for one in net.health()] == ["mesh", "mesh"]
        assert net.changes(other)["system_of_the_plan"] == "scribe"
        net.apply(other, told.append)
        assert [one["system"] for one in net.health()] == ["scribe", "scribe"]
        bill = net.bill(other)
        assert {"copies per delivery"} <= set(bill)
        again = ct.connect(2, base_port=base, data=tmp_path / "net")
        assert repr(again) == f"<RunningNetwork of 2 nodes, admin interfaces from 127.0.0.1:{base + ADMIN_OFFSET}>"
    assert "in force at all 2 nodes" in told[-1]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", base)) != 0  # nobody is left


def test_a_taken_port_is_told_with_the_base_port_that_was_given() -> None:
    base = free_base()
    with socket.create_server(("127.0.0.1", base + ADMIN_OFFSET + 1)):
        said = rf"--base-port: expected .*port {base + ADMIN_OFFSET + 1} is not .*, got {base}"
        with pytest.raises(ConfigError, match=said):
            ct.up(nodes=3, base_port=base)
