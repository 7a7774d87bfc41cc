"""What was there before, files that change whole or not at all, and brokers that are told."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from coterie.errors import InputError, RunError
from coterie.fleets.fleet import fleet_of
from coterie.fleets.record import (
    APPLYING,
    BeforeRecord,
    KeptFile,
    check_writable,
    read_record,
    write_record,
    write_whole,
)
from coterie.fleets.telling import can_be_told, tell


def test_a_record_is_read_as_it_was_written(tmp_path):
    assert read_record(tmp_path) is None
    kept = [KeptFile("acl", "/x/acl", "b0", "mosquitto-acl", text="old"), KeptFile("new", "/x/new", "", "table")]
    record = BeforeRecord(["mosquitto-acl"], 3, APPLYING, kept, {"ann": "b0"}, moved=["ann"])
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    assert (tmp_path / "before" / "acl").read_text() == "old"
    (tmp_path / "before" / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        read_record(tmp_path)


def test_a_file_keeps_its_rights_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "acl"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["acl"]


def test_what_cannot_be_written_is_known_before(tmp_path):
    with pytest.raises(InputError, match="its folder does not exist"):
        check_writable([tmp_path / "none" / "acl"])
    with pytest.raises(InputError, match="it is not a file"):
        check_writable([tmp_path])
    (tmp_path / "long").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        check_writable([tmp_path / "long" / ("x" * 255)])
    if os.geteuid():
        (tmp_path / "acl").write_text("")
        (tmp_path / "acl").chmod(0o400)
        with pytest.raises(InputError, match="permission denied"):
            check_writable([tmp_path / "acl"])
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(tmp_path / "none" / "acl", "x")


def fleet_with(tmp_path, **keys):
    brokers = [{"name": "b0", "address": "h:1", **keys}, {"name": "b1", "address": "h:2"}]
    return fleet_of({"broker": brokers}, str(tmp_path / "fleet.toml"))


def test_a_broker_is_told_by_its_command_or_a_signal(tmp_path):
    command = f"{sys.executable} -c \"open(r'{tmp_path / 'told'}', 'w').close()\""
    tell(fleet_with(tmp_path, reload=command), "b0")
    assert (tmp_path / "told").exists()
    waits = "import signal, sys; signal.signal(1, lambda *_: sys.exit(7)); print(flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    (tmp_path / "pid").write_text(f"{process.pid}\n")
    fleet = fleet_with(tmp_path, pid_file="pid")
    tell(fleet, "b0")
    assert process.wait(10) == 7
    process.stdout.close()
    with pytest.raises(RunError, match="does not run: its pid file names process"):
        tell(fleet, "b0")
    (tmp_path / "pid").write_text("x")
    with pytest.raises(InputError, match="does not hold a number"):
        tell(fleet, "b0")


def test_who_cannot_be_told_is_told(tmp_path):
    fleet = fleet_with(tmp_path, reload=f"{sys.executable} -c \"import sys; sys.exit('no such unit')\"")
    with pytest.raises(RunError, match="broker 'b0', key 'reload': failed with 1: no such unit"):
        tell(fleet, "b0")
    with pytest.raises(RunError, match="cannot be run"):
        tell(fleet_with(tmp_path, reload="/no/such/program"), "b0")
    with pytest.raises(InputError, match="broker 'b1', key 'pid_file' is missing"):
        tell(fleet, "b1")
    with pytest.raises(InputError, match="key 'restart' is missing"):
        tell(fleet, "b0", needs_restart=True)
    assert "'restart'" in can_be_told(fleet, "b0", True)
    assert can_be_told(fleet, "b0", False) == ""
    assert "'pid_file'" in can_be_told(fleet, "b1", False)
