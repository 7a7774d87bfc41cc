"""How an operator writes hosts down, and what cannot be meant."""

from __future__ import annotations

import pytest

from coterie.errors import ConfigError
from coterie.founding.hosts import Host, read_hosts


def test_names_addresses_and_zones():
    assert read_hosts(["a,b=10.0.0.2", "c=fd00::3"]) == [
        Host(0, "a", "a"),
        Host(1, "b", "10.0.0.2"),
        Host(2, "c", "fd00::3"),
    ]
    assert read_hosts(["a@east,b=10.0.0.2@west"])[1] == Host(1, "b", "10.0.0.2", "west")


def test_a_number_is_listened_on_and_a_name_on_all_addresses():
    named, numbered = read_hosts(["a.example.org,b=10.0.0.2"])
    assert (named.listens_on, numbered.listens_on) == ("0.0.0.0", "10.0.0.2")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([""], "1 to 4096 hosts"),
        (["a,a"], "every name once"),
        (["a=10.0.0.1,b=10.0.0.1"], "every address once"),
        (["a@east,b"], "a zone for every host.*write b=ADDRESS@ZONE"),
        (["a b"], "NAME=ADDRESS"),
        (["-a"], "NAME=ADDRESS"),
        (["a=x y"], "NAME=ADDRESS"),
        (["../a"], "NAME=ADDRESS"),
    ],
)
def test_what_cannot_be_meant_is_said(told, words):
    with pytest.raises(ConfigError, match=words):
        read_hosts(told)
