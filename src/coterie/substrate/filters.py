"""Filters over attributes in disjunctive normal form: reading them, matching, covering and merging.

A document maps attributes to numbers or text; a keyword is an attribute with any value. A filter is a disjunction of
conjunctions, a conjunction has at most one constraint per attribute. Text form:

    nokia or motorola
    symbol = "NOK" and price >= 3 and price < 5 or exists alert
    city in ("Espoo", "Oulu") and (street prefix "Kei" or zip > 100)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import islice, product

from coterie.errors import InputError

Value = float | str
Document = Mapping[str, Value]

CONJUNCTIONS_MAX = 1000
DEPTH_MAX = 50
COMPARED_MAX = 16  # conjunctions over the same attributes that a new one is compared with when filters merge


@dataclass(frozen=True, slots=True)
class Anything:
    """The attribute exists."""

    def allows(self, value: Value) -> bool:
        return True

    def __str__(self) -> str:
        return "exists"


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers between two bounds, each inside or (open) not."""

    low: float = -math.inf
    high: float = math.inf
    is_low_open: bool = False
    is_high_open: bool = False

    def allows(self, value: Value) -> bool:
        if isinstance(value, str):
            return False
        above = value > self.low if self.is_low_open else value >= self.low
        return above and (value < self.high if self.is_high_open else value <= self.high)

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and (self.is_low_open or self.is_high_open))


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these numbers and texts."""

    values: frozenset[Value]

    def allows(self, value: Value) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Prefix:
    """Text that begins so."""

    start: str

    def allows(self, value: Value) -> bool:
        return isinstance(value, str) and value.startswith(self.start)


Constraint = Anything | Interval | OneOf | Prefix


def both(one: Constraint, other: Constraint) -> Constraint | None:
    """What satisfies both, None if nothing does."""
    if isinstance(one, Anything):
        return other
    if isinstance(other, Anything):
        return one
    if isinstance(other, OneOf):
        one, other = other, one
    if isinstance(one, OneOf):
        left = frozenset(value for value in one.values if other.allows(value))
        return OneOf(left) if left else None
    if isinstance(one, Prefix) and isinstance(other, Prefix):
        short, long = sorted((one, other), key=lambda prefix: len(prefix.start))
        return long if long.start.startswith(short.start) else None
    if isinstance(one, Interval) and isinstance(other, Interval):
        low, is_low_open = max((one.low, one.is_low_open), (other.low, other.is_low_open))
        high, is_high_closed = min((one.high, not one.is_high_open), (other.high, not other.is_high_open))
        joint = Interval(low, high, is_low_open, not is_high_closed)
        return None if joint.is_empty else joint
    return None


def is_wider(one: Constraint, other: Constraint) -> bool:
    """Whether everything that satisfies `other` satisfies `one`."""
    if isinstance(one, Anything):
        return True
    if isinstance(other, OneOf):
        return all(one.allows(value) for value in other.values)
    if isinstance(one, Interval) and isinstance(other, Interval):
        return both(one, other) == other
    if isinstance(one, Prefix) and isinstance(other, Prefix):
        return other.start.startswith(one.start)
    return False


def either(one: Constraint, other: Constraint) -> Constraint | None:
    """One constraint for what satisfies either, None where there is no exact one."""
    if is_wider(one, other):
        return one
    if is_wider(other, one):
        return other
    if isinstance(one, OneOf) and isinstance(other, OneOf):
        return OneOf(one.values | other.values)
    if isinstance(one, Interval) and isinstance(other, Interval):
        first, second = sorted((one, other), key=lambda interval: (interval.low, interval.is_low_open))
        touches = second.low < first.high or (
            second.low == first.high and not (second.is_low_open and first.is_high_open)
        )
        if touches:
            high, is_high_closed = max((one.high, not one.is_high_open), (other.high, not other.is_high_open))
            return Interval(first.low, high, first.is_low_open, not is_high_closed)
    return None


Conjunction = tuple[tuple[str, Constraint], ...]  # attributes ascending, each once


def conjunction(parts: Iterable[tuple[str, Constraint]]) -> Conjunction | None:
    """Constraints on the same attribute become one; None if they contradict each other."""
    joined: dict[str, Constraint] = {}
    for attribute, constraint in parts:
        joint = both(joined.get(attribute, Anything()), constraint)
        if joint is None:
            return None
        joined[attribute] = joint
    return tuple(sorted(joined.items(), key=lambda part: part[0]))


def conjunction_matches(parts: Conjunction, document: Document) -> bool:
    return all(attribute in document and constraint.allows(document[attribute]) for attribute, constraint in parts)


def conjunction_covers(wide: Conjunction, narrow: Conjunction) -> bool:
    known = dict(narrow)
    return all(attribute in known and is_wider(constraint, known[attribute]) for attribute, constraint in wide)


@dataclass(frozen=True, slots=True)
class Filter:
    """A disjunction of conjunctions; without any it matches nothing."""

    conjunctions: tuple[Conjunction, ...]

    def matches(self, document: Document) -> bool:
        return any(conjunction_matches(parts, document) for parts in self.conjunctions)

    def covers(self, other: Filter) -> bool:
        """True only if everything that `other` matches is matched (sound; a cover by several parts is not seen)."""
        return all(any(conjunction_covers(wide, narrow) for wide in self.conjunctions) for narrow in other.conjunctions)

    @classmethod
    def keywords(cls, words: Iterable[str]) -> Filter:
        """A disjunction of keywords, as in the paper's experiments."""
        return cls(tuple(((word, Anything()),) for word in sorted(set(words))))


def merge(filters: Iterable[Filter]) -> Filter:
    """One filter that matches exactly what any of these match, with what is covered left out and neighbours joined.

    Of many conjunctions over the same attributes only the last few are compared, so a part may stay that could go.
    """
    waiting = list(dict.fromkeys(parts for one in filters for parts in one.conjunctions))
    kept = _Kept()
    while waiting:
        fresh = waiting.pop()
        if kept.covers(fresh):
            continue
        kept.drop_covered(fresh)
        joined = kept.join(fresh)
        if joined is None:
            kept.add(fresh)
        else:
            waiting.append(joined)
    return Filter(tuple(sorted(kept, key=_order)))


class _Kept:
    """Conjunctions by the attributes they are about, and by all of their parts but one."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, ...], dict[Conjunction, None]] = {}
        self._about: dict[str, dict[tuple[str, ...], None]] = {}  # attribute -> keys of `_of` that have it
        self._but_one: dict[tuple[str, Conjunction], Conjunction] = {}  # (attribute, other parts) -> the one like that

    def __iter__(self) -> Iterator[Conjunction]:
        return (parts for some in self._of.values() for parts in some)

    def add(self, parts: Conjunction) -> None:
        key = tuple(attribute for attribute, _ in parts)
        if key not in self._of:
            self._of[key] = {}
            for attribute in key:
                self._about.setdefault(attribute, {})[key] = None
        self._of[key][parts] = None
        for attribute, rest in _but_one(parts):
            self._but_one[attribute, rest] = parts

    def _near(self, parts: Conjunction, is_wider: bool) -> Iterator[Conjunction]:
        """The last few about a part of the same attributes (they may cover it), or about more than those."""
        mine = {attribute for attribute, _ in parts}
        keys = dict.fromkeys(key for attribute, _ in parts for key in self._about.get(attribute, ()))
        for key in keys:
            if mine.issuperset(key) if is_wider else mine.issubset(key):
                yield from islice(reversed(self._of[key]), COMPARED_MAX)

    def covers(self, fresh: Conjunction) -> bool:
        return any(conjunction_covers(parts, fresh) for parts in self._near(fresh, is_wider=True))

    def drop_covered(self, fresh: Conjunction) -> None:
        gone = [parts for parts in self._near(fresh, is_wider=False) if conjunction_covers(fresh, parts)]
        for parts in gone:
            self._remove(parts)

    def join(self, fresh: Conjunction) -> Conjunction | None:
        """The union with one of those kept, which is taken out, where there is an exact one."""
        for attribute, rest in _but_one(fresh):
            parts = self._but_one.get((attribute, rest))
            joined = None if parts is None else _join(parts, fresh)
            if parts is not None and joined is not None:
                self._remove(parts)
                return joined
        return None

    def _remove(self, parts: Conjunction) -> None:
        del self._of[tuple(attribute for attribute, _ in parts)][parts]
        for key in _but_one(parts):
            if self._but_one.get(key) == parts:
                del self._but_one[key]


def _but_one(parts: Conjunction) -> list[tuple[str, Conjunction]]:
    return [(parts[at][0], (*parts[:at], *parts[at + 1 :])) for at in range(len(parts))]


def _order(parts: Conjunction) -> list[tuple[str, str]]:
    """Something to sort by that does not depend on how sets are stored."""
    return [
        (attribute, str(sorted(map(repr, one.values))) if isinstance(one, OneOf) else repr(one))
        for attribute, one in parts
    ]


def _join(one: Conjunction, other: Conjunction) -> Conjunction | None:
    """Two conjunctions that differ in one attribute only, where that has an exact union."""
    if len(one) != len(other) or any(left[0] != right[0] for left, right in zip(one, other, strict=True)):
        return None
    apart = [at for at in range(len(one)) if one[at][1] != other[at][1]]
    if len(apart) != 1:
        return None
    at = apart[0]
    union = either(one[at][1], other[at][1])
    return None if union is None else (*one[:at], (one[at][0], union), *one[at + 1 :])


# --- writing ---


def write(parts: Conjunction) -> str:
    """The text that `parse` reads as this conjunction alone; only what was read from text can be written."""
    return " and ".join(_write_constraint(attribute, constraint) for attribute, constraint in parts)


def _write_constraint(attribute: str, constraint: Constraint) -> str:
    if isinstance(constraint, Anything):
        return f"exists {attribute}"
    if isinstance(constraint, Prefix):
        return f"{attribute} prefix {_write_value(constraint.start)}"
    if isinstance(constraint, OneOf):
        ordered = sorted(constraint.values, key=lambda value: (isinstance(value, str), value))
        return f"{attribute} in ({', '.join(map(_write_value, ordered))})"
    bounds = []
    if constraint.low > -math.inf or constraint.is_low_open:
        bounds.append(f"{attribute} {'>' if constraint.is_low_open else '>='} {_write_value(constraint.low)}")
    if constraint.high < math.inf or constraint.is_high_open or not bounds:
        bounds.append(f"{attribute} {'<' if constraint.is_high_open else '<='} {_write_value(constraint.high)}")
    return " and ".join(bounds)


def _write_value(value: Value) -> str:
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"  # reads as infinite
    return repr(float(value))


# --- reading ---

TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<text>"[^"]*"|'[^']*')"""
    r"""|(?P<word>[A-Za-z_][\w.:/-]*)|(?P<sign><=|>=|[=<>(),]))"""
)
RESERVED = ("and", "or", "in", "prefix", "exists")


def parse(text: str, source: str = "filter") -> Filter:
    """The filter that the text describes; InputError says at which character it goes wrong and what is wanted."""
    reader = _FilterReader(text, source)
    alternatives = reader.disjunction()
    if reader.peek() is not None:
        reader.fail("'and', 'or' or the end")
    parts = tuple(dict.fromkeys(found for one in alternatives if (found := conjunction(one)) is not None))
    if not parts:
        raise InputError(source, f"{text!r} contradicts itself and can never match")
    return Filter(parts)


Alternatives = list[list[tuple[str, Constraint]]]


class _FilterReader:
    """Recursive descent; every rule returns its disjunctive normal form."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        self._depth = 0
        place = 0
        while text[place:].strip():
            found = TOKEN.match(text, place)
            if found is None:
                raise InputError(source, f"character {place + 1}: cannot read {text[place:].strip()[:10]!r}")
            kind = found.lastgroup
            assert kind is not None
            self._tokens.append((kind, found[kind], found.start(kind) + 1))
            place = found.end()

    def peek(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def fail(self, wanted: str) -> None:
        if self._at < len(self._tokens):
            _, token, place = self._tokens[self._at]
            raise InputError(self._source, f"character {place}: {wanted} wanted, not {token!r}")
        raise InputError(self._source, f"ends where {wanted} is wanted")

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            self.fail(wanted)
        kind, token, _ = self._tokens[self._at]
        self._at += 1
        return kind, token

    def _expect(self, token: str) -> None:
        if self.peek() != token:
            self.fail(repr(token))
        self._at += 1

    def disjunction(self) -> Alternatives:
        found = self._conjunction()
        while self.peek() == "or":
            self._at += 1
            found = found + self._conjunction()
        return found

    def _conjunction(self) -> Alternatives:
        factors = [self._factor()]
        while self.peek() == "and":
            self._at += 1
            factors.append(self._factor())
        if math.prod(len(factor) for factor in factors) > CONJUNCTIONS_MAX:
            raise InputError(
                self._source, f"has more than {CONJUNCTIONS_MAX} alternatives; write it as several filters"
            )
        return [reduce(lambda one, other: one + other, choice) for choice in product(*factors)]

    def _factor(self) -> Alternatives:
        if self.peek() == "(":
            self._at += 1
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise InputError(self._source, f"has more than {DEPTH_MAX} brackets inside each other")
            found = self.disjunction()
            self._expect(")")
            self._depth -= 1
            return found
        if self.peek() == "exists":
            self._at += 1
            return [[(self._attribute(), Anything())]]
        attribute = self._attribute()
        return [[(attribute, self._constraint())]]

    def _attribute(self) -> str:
        if self._at < len(self._tokens) and (self._tokens[self._at][0] != "word" or self.peek() in RESERVED):
            self.fail("an attribute or keyword")
        return self._next("an attribute or keyword")[1]

    def _constraint(self) -> Constraint:
        sign = self.peek()
        if sign is None or sign in ("and", "or", ")"):
            return Anything()
        if sign == "=":
            self._at += 1
            return OneOf(frozenset({self._value()}))
        if sign in ("<", "<=", ">", ">="):
            self._at += 1
            bound = self._number()
            if sign[0] == "<":
                return Interval(high=bound, is_high_open=sign == "<")
            return Interval(low=bound, is_low_open=sign == ">")
        if sign == "prefix":
            self._at += 1
            return Prefix(self._string())
        if sign == "in":
            self._at += 1
            return OneOf(self._values())
        self.fail("=, <, <=, >, >=, prefix or in")
        raise AssertionError

    def _values(self) -> frozenset[Value]:
        self._expect("(")
        values = [self._value()]
        while self.peek() == ",":
            self._at += 1
            values.append(self._value())
        self._expect(")")
        return frozenset(values)

    def _value(self) -> Value:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "sign":
            self.fail("a value")
        kind, token = self._next("a value")
        if kind == "number":
            return float(token)
        return token[1:-1] if kind == "text" else token

    def _number(self) -> float:
        if self._at < len(self._tokens) and self._tokens[self._at][0] != "number":
            self.fail("a number")
        return float(self._next("a number")[1])

    def _string(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] not in ("text", "word"):
            self.fail("text")
        return str(self._value())
