"""Column mappings from words and from TOML."""

from __future__ import annotations

import pytest

from coterie.api.logs import request_of
from coterie.errors import ConfigError
from coterie.pipeline.catalogs import tables_of
from coterie.pipeline.mapping import Source, parse_columns, read_sources


def test_words_become_a_mapping():
    assert parse_columns(["subscriber=user", "topic = page"]) == {"subscriber": "user", "topic": "page"}


@pytest.mark.parametrize("word", ["user", "=user", "subscriber=", "colour=user"])
def test_a_bad_word_is_named(word):
    with pytest.raises(ConfigError, match="column"):
        parse_columns([word])


def test_a_name_given_twice_is_refused():
    with pytest.raises(ConfigError, match="only once: it is user already"):
        parse_columns(["subscriber=user", "subscriber=who"])


def test_toml_holds_several_sources_with_paths_from_its_own_folder(tmp_path):
    file = tmp_path / "mapping.toml"
    file.write_text(
        '[[source]]\npath = "a/*.csv"\ntime_unit = "ms"\nzone = "Europe/Vienna"\n'
        '[source.columns]\nsubscriber = "user"\n'
        '[[source]]\npath = ["b", "c"]\ntable = "publications"\nduplicates = "keep"\n'
    )
    first, second = read_sources(file)
    assert first == Source(
        (str(tmp_path / "a/*.csv"),), columns={"subscriber": "user"}, time_unit="ms", zone="Europe/Vienna"
    )
    assert second.paths == (str(tmp_path / "b"), str(tmp_path / "c"))
    assert (second.table, second.duplicates) == ("publications", "keep")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "at least one"),
        ("[[source", "valid TOML"),
        ("[[source]]\n", "path"),
        ('[[source]]\npath = "a"\ncolour = "red"', "colour"),
        ('[[source]]\npath = "a"\ntable = "sums"', "one of subscriptions"),
        ('[[source]]\npath = "a"\ntime_unit = "days"', "time_unit"),
        ('[[source]]\npath = "a"\ntime_unit = "%H:%M:%S"', "time_unit"),
        ('[[source]]\npath = "a"\nzone = "Mars/Base"', "time zone"),
        ('[[source]]\npath = "a"\n[source.columns]\ncolour = "x"', "columns of subscriptions"),
        ('other = 1\n[[source]]\npath = "a"', "only"),
    ],
)
def test_mistakes_in_toml_are_explained(tmp_path, text, complaint):
    file = tmp_path / "mapping.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_sources(file)


def test_a_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="readable"):
        read_sources(tmp_path / "none.toml")


def test_tables_are_inputs_of_a_command_like_files():
    """Nobody looks for them on a disk; a run is named after the table."""

    def asked(*inputs):
        return request_of(inputs, ["subscriber=user"], None, "auto", "UTC", False)

    found = asked("subscriptions=table:lake.mqtt.subs", "publications=table:pubs")
    assert [tables_of(one) for one in found.sources] == [["lake.mqtt.subs"], ["pubs"]]
    assert found.name == "subs"
    assert asked("table:subs").name == "subs"
