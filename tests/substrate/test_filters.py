"""Filters: what the text says, the algebra against brute force, and the index against a scan."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.substrate.filterindex import FilterIndex
from coterie.substrate.filters import (
    Anything,
    Conjunction,
    Constraint,
    Document,
    Filter,
    Interval,
    OneOf,
    Prefix,
    both,
    conjunction,
    either,
    is_wider,
    merge,
    parse,
    write,
)

numbers = st.integers(-3, 3).map(float)
texts = st.text("ab", max_size=3)
values = numbers | texts
intervals = st.builds(
    lambda low, width, is_low_open, is_high_open: Interval(low, low + width + 0.5, is_low_open, is_high_open),
    numbers,
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)
constraints: st.SearchStrategy[Constraint] = st.one_of(
    st.just(Anything()),
    intervals,
    st.builds(lambda low: Interval(low=low), numbers),
    st.builds(lambda high: Interval(high=high, is_high_open=True), numbers),
    st.builds(OneOf, st.frozensets(values, min_size=1, max_size=3)),
    st.builds(Prefix, texts),
)
conjunctions: st.SearchStrategy[Conjunction] = st.dictionaries(
    st.sampled_from("xyz"), constraints, min_size=1, max_size=3
).map(lambda parts: tuple(sorted(parts.items())))
filters = st.lists(conjunctions, min_size=1, max_size=4).map(lambda parts: Filter(tuple(parts)))
documents: st.SearchStrategy[Document] = st.dictionaries(st.sampled_from("wxyz"), values, max_size=4)


@given(conjunctions)
def test_conjunctions_are_written_as_they_are_read(parts: Conjunction) -> None:
    assert parse(write(parts)) == Filter((parts,))


@pytest.mark.parametrize(
    "text", ["x = 'say \"a\"'", 'x prefix "it\'s"', "x < 1e999", "x > -1e999 and x <= 0.1", "x >= -5e-324"]
)
def test_odd_values_are_written_as_they_are_read(text: str) -> None:
    assert parse(write(parse(text).conjunctions[0])) == parse(text)


@given(constraints, constraints, values)
def test_algebra_of_constraints(one: Constraint, other: Constraint, value: float | str) -> None:
    joint, union = both(one, other), either(one, other)
    assert (joint is not None and joint.allows(value)) == (one.allows(value) and other.allows(value))
    if union is not None:
        assert union.allows(value) == (one.allows(value) or other.allows(value))
    if is_wider(one, other) and other.allows(value):
        assert one.allows(value)


@given(st.lists(st.tuples(st.sampled_from("xy"), constraints), min_size=1, max_size=4), documents)
def test_constraints_on_one_attribute_become_one(parts: list[tuple[str, Constraint]], document: Document) -> None:
    joined = conjunction(parts)
    expected = all(attribute in document and one.allows(document[attribute]) for attribute, one in parts)
    assert (joined is not None and Filter((joined,)).matches(document)) == expected


@given(filters, filters, documents)
def test_a_filter_that_covers_another_matches_whatever_that_matches(
    wide: Filter, narrow: Filter, document: Document
) -> None:
    assert wide.covers(wide)
    if wide.covers(narrow) and narrow.matches(document):
        assert wide.matches(document)


@given(st.lists(filters, max_size=4), documents)
def test_merging_changes_nothing_that_matters(some: list[Filter], document: Document) -> None:
    merged = merge(some)
    assert merged.matches(document) == any(one.matches(document) for one in some)
    assert len(merged.conjunctions) <= sum(len(one.conjunctions) for one in some)


def test_merging_drops_what_is_covered_and_joins_neighbours() -> None:
    some = [
        parse("price > 3"),
        parse("price > 5 and symbol = NOK"),
        parse("city = Oulu"),
        parse("city = Espoo"),
        parse("size >= 1 and size < 2"),
        parse("size >= 2 and size <= 4"),
    ]
    assert merge(some) == merge([parse("price > 3 or city in (Oulu, Espoo) or (size >= 1 and size <= 4)")])
    assert len(merge(some).conjunctions) == 3


@given(st.lists(filters, max_size=12), st.lists(documents, max_size=6))
def test_index_finds_what_a_scan_finds(some: list[Filter], several: list[Document]) -> None:
    index = FilterIndex(some)
    for document in several:
        expected = [number for number, one in enumerate(some) if one.matches(document)]
        assert index.match(document).tolist() == expected


def test_text_form() -> None:
    document = {"symbol": "NOK", "price": 4.0, "city": "Espoo", "nokia": "", "path": "a/b"}
    for text, expected in {
        "nokia": True,
        "motorola or nokia": True,
        "motorola and nokia": False,
        "exists motorola": False,
        'symbol = "NOK" and price >= 3 and price < 5': True,
        "symbol = NOK and price > 4": False,
        "price <= 4": True,
        "price < -1e3 or price = 4": True,
        "city in ('Oulu', \"Espoo\")": True,
        "city prefix Es and (price > 10 or path prefix 'a/')": True,
        "(nokia or motorola) and (price > 10 or symbol = ERI)": False,
    }.items():
        assert parse(text).matches(document) == expected, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends where an attribute or keyword is wanted"),
        ("a and", "ends where"),
        ("a b", "character 3: =, <, <=, >, >=, prefix or in wanted, not 'b'"),
        ("price < cheap", "character 9: a number wanted"),
        ("a = ", "ends where a value is wanted"),
        ("a = )", "character 5: a value wanted"),
        ("a in 3", "character 6: '\\(' wanted"),
        ("(a or b", "ends where '\\)' is wanted"),
        ("a) or b", "the end wanted"),
        ("a ? b", "character 2: cannot read"),
        ("or", "attribute or keyword wanted, not 'or'"),
        ("a > 3 and a < 2", "can never match"),
        (" and ".join(f"(a{n} or b{n})" for n in range(12)), "more than 1000 alternatives"),
        ("(" * 60 + "a" + ")" * 60, "50 brackets"),
        ("a prefix 3", "text wanted"),
    ],
)
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text, "subscription 7")


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        parse(text)


def test_a_disjunction_of_keywords() -> None:
    wanted = Filter.keywords(["nokia", "motorola", "nokia"])
    assert wanted == parse("motorola or nokia")
    assert FilterIndex([wanted, Filter.keywords(["ericsson"])]).match({"nokia": 1.0}).tolist() == [0]
    assert FilterIndex([]).match({"nokia": 1.0}).tolist() == []
