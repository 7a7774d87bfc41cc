"""Stored passwords: ours, and those of mosquitto's password files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from coterie.broker.passwords import is_stored, read_password_file
from coterie.live.passwords import check_password, hash_password


def test_a_password_is_right_or_not() -> None:
    stored = hash_password("secret")
    assert is_stored(stored)
    assert check_password(b"secret", stored)
    assert not check_password(b"Secret", stored)


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="mosquitto_passwd is not installed")
@pytest.mark.parametrize("form", ["sha512-pbkdf2", "sha512"])
def test_files_of_mosquitto_passwd(form: str, tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    path.touch(mode=0o600)
    for user, password in (("ann", "secret"), ("bob", "pässword")):
        command = ["mosquitto_passwd", "-H", form, "-b", str(path), user, password]
        subprocess.run(command, check=True, capture_output=True)
    stored = read_password_file("# people\n\n" + path.read_text())
    assert list(stored) == ["ann", "bob"]
    assert check_password(b"secret", stored["ann"])
    assert check_password("pässword".encode(), stored["bob"])
    assert not check_password(b"secret", stored["bob"])


@pytest.mark.parametrize(
    "text",
    ["secret", "scrypt$1$2$3$AA==", "$6$AA==", "$7$x$AA==$AA==", "$7$0$AA==$AA==", "$5$AA==$AA==", "7$1$AA==$AA==",
     "$6$AA==$?", "$scrypt$16384$8$1$AA==$AA==", "$7$²$AA==$AA=="],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    assert not is_stored(text)
    with pytest.raises(ValueError, match="line 2"):
        read_password_file(f"# people\nann:{text}\n")
