"""Lines of mosquitto's log taken apart by SQL expressions: time, what kind of line, who, which topic, how much.

Each kind that needs no other line is told here (`code`); lines in blocks and lines without a keyword come out as `tab`
and `plain` with their text, for `logresolving`. The order of the questions is that of fleets/observe/mosquitto.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from coterie.pipeline import logpatterns as patterns
from coterie.pipeline.logpatterns import StampShape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARSED = ("node", "order", "t_us", "code", "client", "topic", "size", "text")
PASSED = ("publish", "deliver", "repeat", "own")


def parsed_lines(lines: DataFrame, shapes: Sequence[StampShape], zone: str) -> DataFrame:
    """(node, order, line, torn) -> PARSED; `text` only where somebody has to look at it again."""
    from pyspark.sql import functions as sf

    stamped = lines
    for index, shape in enumerate(shapes):
        found = sf.regexp_extract("line", shape.pattern, 0)
        if index:  # a line has one stamp
            found = sf.when(sf.concat(*map(_stamp, range(index))) == "", found).otherwise("")
        stamped = stamped.withColumn(f"stamp{index}", found)
    moments = [_moment(_stamp(index), shape, zone) for index, shape in enumerate(shapes)]
    lengths = [sf.when(moment.isNotNull(), sf.length(_stamp(index))) for index, moment in enumerate(moments)]
    stamped = stamped.select(
        "node", "order", "line", "torn", sf.coalesce(*moments).alias("t_us"), sf.coalesce(*lengths).alias("skip")
    )
    timed = stamped.withColumn(
        "text",
        sf.when(sf.col("t_us").isNull() | sf.col("torn"), sf.col("line")).otherwise(
            sf.expr("substring(line, skip + 1)")
        ),
    )
    # One look at each message gives all its parts; MQTT forbids the character between them in texts.
    joined = sf.regexp_replace("text", patterns.PASSED, "$1\0$2\0$3\0$4")
    timed = timed.withColumn("passed", sf.when(_is_message(sf.col("text")), sf.split(joined, "\0")))
    coded = timed.withColumn(
        "code", sf.when(sf.col("t_us").isNull() | sf.col("torn"), _timeless()).otherwise(_code(sf.col("text")))
    )
    return coded.select("node", "order", "t_us", *_parts()).select(*PARSED)


def _is_message(text: Column) -> Column:
    return text.startswith("Received PUBLISH from ") | text.startswith("Sending PUBLISH to ")


def _stamp(index: int) -> Column:
    from pyspark.sql import functions as sf

    return sf.col(f"stamp{index}")


def _timeless() -> Column:
    from pyspark.sql import functions as sf

    blank = (sf.regexp_extract("line", r"(?s)^[ \t\r\n\f\x0b]*(?!.)", 0) == sf.col("line")) & ~sf.col("torn")
    return sf.when(sf.col("torn"), "torn").when(blank, "other").otherwise("unknown")


def _moment(stamp: Column, shape: StampShape, zone: str) -> Column:
    """Microseconds since 1970 of a stamp; null if there is no such time."""
    from pyspark.sql import functions as sf

    def part(name: str) -> Column:
        return sf.regexp_extract(stamp, shape.pattern, shape.parts.index(name) + 1)

    if "epoch" in shape.parts:
        return sf.when(stamp != "", part("epoch").cast("long") * 1_000_000)

    def whole(name: str) -> Column:
        return sf.expr("0") if name not in shape.parts else part(name).cast("int")

    offset = part("offset") if "offset" in shape.parts else sf.lit("")
    fraction = sf.rpad(part("fraction"), 6, "0").cast("int") if "fraction" in shape.parts else sf.lit(0)
    named = [whole(name) for name in ("year", "month", "day", "hour", "minute", "second")]
    local = sf.call_function("try_make_timestamp", *named, sf.lit(zone))
    fixed = sf.call_function("try_make_timestamp", *named, sf.lit("UTC"))
    sign = sf.when(sf.substring(offset, 1, 1) == "-", -1).otherwise(1)
    ahead = sign * (sf.substring(offset, 2, 2).cast("long") * 3600 + sf.expr("0"))
    ahead = sf.when(offset == "Z", 0).otherwise(ahead + sign * sf.substring(offset, -2, 2).cast("long") * 60)
    whole_us = sf.when(offset == "", sf.unix_micros(local)).otherwise(sf.unix_micros(fixed) - ahead * 1_000_000)
    real = (stamp != "") & (whole("second") < 60) & (whole("year") > 0)
    return sf.when(real, whole_us + fraction)


def _code(text: Column) -> Column:
    """What kind of line it is, asked in the order of what is most common."""
    from pyspark.sql import functions as sf

    parts = sf.col("passed")
    broken, own = sf.size(parts) != 4, sf.get(parts, sf.lit(2)).rlike(patterns.OWN)
    repeated = sf.get(parts, sf.lit(1)) == "1"
    received = sf.when(broken, "unknown").when(own, "own").when(repeated, "repeat").otherwise("publish")
    sent = sf.when(broken, "unknown").when(own, "own").otherwise("deliver")
    asks = sf.regexp_extract(text, patterns.ASKS, 1)
    questions: list[tuple[Column, Column]] = [
        (text.startswith("Received PUBLISH from "), received),
        (text.startswith("Sending PUBLISH to "), sent),
        (text.startswith(patterns.TAB), sf.lit("tab")),
        (asks == "SUBSCRIBE", sf.lit("asks")),
        (asks == "UNSUBSCRIBE", sf.lit("gives up")),
        (text.startswith("Sending ") | text.startswith("Received "), sf.lit("other")),
        (sf.regexp_extract(text, patterns.CONNECTED, 1) == "bridge", sf.lit("bridge")),
        (text.rlike(patterns.CONNECTED), sf.lit("connect")),
        (text.rlike(patterns.ENDED) | text.rlike(patterns.BROKEN), sf.lit("end")),
        (text.rlike(patterns.EXPIRED), sf.lit("expire")),
        (text.rlike(patterns.STARTED), sf.lit("restart")),
        (text.rlike(patterns.WILL), sf.lit("will")),
    ]
    return reduce(lambda chain, one: sf.when(one[0], one[1]).otherwise(chain), reversed(questions), sf.lit("plain"))


def _parts() -> list[Column]:
    from pyspark.sql import functions as sf

    text, code = sf.col("text"), sf.col("code")
    passed = code.isin(*PASSED)
    client = (
        sf.when(passed, sf.get("passed", sf.lit(0)))
        .when(code.isin("asks", "gives up"), sf.regexp_extract(text, patterns.ASKS, 2))
        .when(code.isin("connect", "bridge"), sf.regexp_extract(text, patterns.CONNECTED, 2))
        .when((code == "end") & text.startswith("Client "), sf.regexp_extract(text, patterns.ENDED, 1))
        .when(code == "end", sf.regexp_extract(text, patterns.BROKEN, 1))
        .when(code == "expire", sf.regexp_extract(text, patterns.EXPIRED, 1))
    )
    counted = code.isin("publish", "deliver")
    size = sf.when(code == "publish", sf.get("passed", sf.lit(3)).cast("long")).when(
        code.isin("connect", "bridge"), sf.regexp_extract(text, patterns.CONNECTED, 3).cast("long")
    )  # of a connection: whether it is clean
    looked_at = code.isin("tab", "plain", "unknown", "torn")
    return [
        code,
        client.alias("client"),
        sf.when(counted, sf.get("passed", sf.lit(2))).alias("topic"),
        size.alias("size"),
        sf.when(looked_at, text).alias("text"),
    ]
