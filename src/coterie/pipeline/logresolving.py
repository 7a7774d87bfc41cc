"""What only other lines can tell: whose block a line stands in, who is a bridge, which lines name accepted wishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from coterie.pipeline import logpatterns as patterns
from coterie.pipeline.histories import SessionRecord
from coterie.pipeline.logpatterns import EXAMPLES_MAX, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

CONTROL = ("asks", "gives up", "will", "tab", "plain")
TORN = "a line torn by rotation: "
# Codes of whole lines -> what the account calls them.
CATEGORY = {
    "publish": "publications",
    "deliver": "deliveries",
    "repeat": "repetitions",
    "own": "own topics",
    "asks": "subscriptions",
    "gives up": "unsubscriptions",
    "connect": "connections",
    "bridge": "connections",
    "end": "connections",
    "expire": "connections",
    "restart": "connections",
    "will": "other",
    "other": "other",
    "unknown": UNKNOWN,
    "torn": UNKNOWN,
    "asked": "subscriptions",
    "wish": "subscriptions",
    "unwish": "unsubscriptions",
    "again": "unsubscriptions",
    "refused": "refused",
}


class Remembered(Protocol):
    """What is known of a broker's log from earlier runs."""

    block: tuple[str, str]
    expected: tuple[str, str]
    bridges: Sequence[str]
    names_accepted: bool

    @property
    def sessions(self) -> Mapping[str, SessionRecord]: ...

    @property
    def node(self) -> str: ...


@dataclass
class Resolved:
    """Sightings and publications of everybody who counts; lists are by number of the broker."""

    sightings: DataFrame
    sighting_count: int
    publications: DataFrame
    restarts: dict[str, list[tuple[int, int]]]
    counts: list[dict[str, int]]
    examples: list[list[str]]
    blocks: list[tuple[str, str]]
    expected: list[tuple[str, str]]
    bridges: list[list[str]]
    names_accepted: list[bool]


def resolve(spark: SparkSession, parsed: DataFrame, logs: Sequence[Remembered]) -> Resolved:
    """Four passes over small columns: control lines, bridges, the account, and what is handed on."""
    from pyspark.sql import functions as sf

    blocks = _in_blocks(parsed, logs).join(_callers(spark, parsed, logs), ["node", "order"], "left")
    control = _with_pairs(spark, blocks, parsed, logs).persist()
    facts = _facts(control, logs)
    bridges = _bridges(parsed, logs)
    whole = parsed.where(~sf.col("code").isin(*CONTROL)).select(
        "node", "order", "t_us", "code", "client", "topic", "size", "text"
    )
    lines = whole.unionByName(
        control.select(
            "node", "order", "t_us", "code", "client", "topic", sf.lit(None).cast("long").alias("size"), "text"
        )
    )
    ours = ~_is_left_out(bridges)
    accepted = sf.array(*[sf.lit(flag) for flag in facts["names_accepted"]])
    is_believed = (sf.col("code") != "asked") | ~sf.element_at(accepted, sf.col("node") + 1)
    sightings = _sightings(lines.where(ours & is_believed)).persist()
    publications = (
        lines.where((sf.col("code") == "publish") & ours).groupBy("node", "t_us", "client", "topic", "size").count()
    )
    starts = lines.where("code = 'restart'").select("node", "order", "t_us").orderBy("node", "order").collect()
    restarts: dict[str, list[tuple[int, int]]] = {}
    for row in starts:
        restarts.setdefault(logs[row["node"]].node, []).append((row["order"], row["t_us"]))
    return Resolved(
        sightings,
        sightings.count(),
        publications,
        restarts,
        _counts(lines, ours, len(logs)),
        _examples(lines, len(logs)),
        facts["blocks"],
        facts["expected"],
        bridges,
        facts["names_accepted"],
    )


def _in_blocks(parsed: DataFrame, logs: Sequence[Remembered]) -> DataFrame:
    """Control lines with the block they stand in (`owner`, `mode`) and what the last line of a block said."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    code, text = sf.col("code"), sf.col("text")
    control = parsed.where(code.isin(*CONTROL)).drop("topic", "size")
    so_far = Window.partitionBy("node").orderBy("order").rowsBetween(Window.unboundedPreceding, 0)
    before = sf.struct(code.alias("mode"), sf.coalesce("client", sf.lit("")).alias("owner"))
    head = sf.last(sf.when(code.isin("asks", "gives up", "will"), before), ignorenulls=True).over(so_far)
    modes = {"SUBSCRIBE": "asks", "UNSUBSCRIBE": "gives up", "WILL": "will", "": ""}
    first = _by_node([(modes[log.block[0]], log.block[1]) for log in logs], ("mode", "owner"))
    blocked = control.withColumn("head", sf.coalesce(head, first)).select("*", "head.mode", "head.owner").drop("head")
    wish = sf.regexp_extract(text, patterns.TAB_WISH, 1)
    is_wish = (sf.col("mode") == "asks") & text.rlike(patterns.TAB_WISH)
    tabbed = sf.when(is_wish, wish).when(sf.col("mode") == "gives up", sf.expr("substring(text, 2)"))
    said = sf.when((code == "tab") & tabbed.isNotNull(), sf.struct(sf.col("owner").alias("who"), tabbed.alias("what")))
    last = sf.last(said, ignorenulls=True).over(so_far)
    nobody = _by_node([log.expected for log in logs], ("who", "what"))
    blocked = blocked.withColumn("tabbed", tabbed).withColumn("said", sf.coalesce(last, nobody))
    denied = (sf.col("mode") == "asks") & text.endswith(" (denied)")
    tab_code = (
        sf.when(sf.col("mode") == "will", "other").when(is_wish, "asked").when(denied, "refused")
        .when(sf.col("mode") == "gives up", "unwish").otherwise("unknown")
    )  # fmt: skip
    return blocked.withColumn("code", sf.when(code == "tab", tab_code).otherwise(code)).select(
        "*", "said.who", "said.what"
    )


def _with_pairs(spark: SparkSession, blocks: DataFrame, parsed: DataFrame, logs: Sequence[Remembered]) -> DataFrame:
    """Lines without a keyword: `ID QOS FILTER`, `ID FILTER`, or talk. What a line repeats tells its parts apart."""
    from pyspark.sql import functions as sf

    text, code = sf.col("text"), sf.col("code")
    has_block = (code == "plain") & (sf.col("who") != "")
    same = [sf.concat(sf.col("who"), sf.lit(f" {qos} "), sf.col("what")) for qos in range(3)]
    confirms = has_block & ((text == same[0]) | (text == same[1]) | (text == same[2]))
    repeats = has_block & (text == sf.concat(sf.col("who"), sf.lit(" "), sf.col("what")))
    is_free, is_talk = (code == "plain") & ~confirms & ~repeats, text.rlike(patterns.CHATTER)
    is_sure = is_free & sf.col("said_by").isNotNull() & (sf.col("said_by.is_wish") | ~is_talk)
    gives_up = is_sure & ~sf.col("said_by.is_wish")
    guess = (is_sure & ~gives_up) | ((code == "plain") & ~is_talk & ~gives_up & text.rlike(patterns.PLAIN_WISH))
    asked = (code == "asked") | (code == "unwish")
    client = (
        sf.when(code.isin("asks", "gives up"), sf.col("client")).when(asked | (code == "refused"), sf.col("owner"))
        .when(confirms | repeats, sf.col("who")).when(is_sure, sf.col("said_by.client"))
        .when(guess, sf.regexp_extract(text, patterns.PLAIN_WISH, 1))
    )  # fmt: skip
    topic = (
        sf.when(asked, sf.col("tabbed")).when(confirms | repeats, sf.col("what"))
        .when(is_sure, sf.col("said_by.topic"))
        .when(guess, sf.regexp_extract(text, patterns.PLAIN_WISH, 3))
    )  # fmt: skip
    guessed = sf.when(confirms, "wish").when(repeats, "again").when(guess, "guess").when(gives_up, "unwish")
    guessed = guessed.otherwise(code)
    named = blocks.select(
        "node", "order", "t_us", guessed.alias("code"), client.alias("client"), topic.alias("topic"), "text",
        "mode", "owner", "who", "what", confirms.alias("confirmed"),
    )  # fmt: skip
    joined = named.join(_pairs(spark, named, parsed, logs), ["node", "text"], "left")
    known = sf.col("code").isin("plain", "guess") & (sf.col("pair.since") < sf.col("order"))
    talk = sf.when(text.rlike(patterns.CHATTER), "other").otherwise("unknown")
    final = sf.when(known, "unwish").when(sf.col("code") == "guess", "wish").when(sf.col("code") == "plain", talk)
    settled = joined.select(
        "node", "order", "t_us", "text", "mode", "owner", "who", "what", "confirmed",
        sf.when(known, sf.col("pair.client")).otherwise(sf.col("client")).alias("client"),
        sf.when(known, sf.col("pair.topic")).otherwise(sf.col("topic")).alias("topic"),
        final.otherwise(sf.col("code")).alias("code"),
    )  # fmt: skip
    own = sf.col("code").isin("asked", "wish", "unwish") & sf.col("topic").rlike(patterns.OWN)
    return settled.withColumn("code", sf.when(own, "own").otherwise(sf.col("code")))


def _callers(spark: SparkSession, parsed: DataFrame, logs: Sequence[Remembered]) -> DataFrame:
    """`said_by`: client and filter of a line that begins with the identifier of a client that connected before.

    Wishes (a QoS follows) come before wishes given up, then the longest identifier counts.
    """
    from pyspark.sql import functions as sf

    plain = parsed.where("code = 'plain'").select("node", "order", sf.split("text", " ").alias("words"))
    cut = plain.where("size(words) > 1").select("*", sf.explode(sf.expr("sequence(1, size(words) - 1)")).alias("at"))
    qos = ", ".join(f"'{one}'" for one in patterns.QOS)
    ways = cut.select("*", sf.explode(sf.expr(f"if(words[at] in ({qos}), array(true, false), array(false))")))
    rest = "slice(words, if(col, at + 2, at + 1), size(words))"
    tried = ways.selectExpr(
        "node", "order", "col as is_wish", "array_join(slice(words, 1, at), ' ') as client",
        f"array_join({rest}, ' ') as topic",
    )  # fmt: skip
    sure = [(at, name, -1) for at, log in enumerate(logs) for name in sorted({*log.sessions, *log.bridges})]
    before = spark.createDataFrame(sure, "node int, client string, since long")
    now = parsed.where("code in ('connect', 'bridge')").groupBy("node", "client").agg(sf.min("order").alias("since"))
    known = now.unionByName(before).groupBy("node", "client").agg(sf.min("since").alias("since"))
    found = tried.where("topic != ''").join(known, ["node", "client"]).where("since < order")
    best = sf.max(sf.struct("is_wish", sf.length("client"), "client", "topic"))
    return found.groupBy("node", "order").agg(best.alias("said_by"))


def _pairs(spark: SparkSession, named: DataFrame, parsed: DataFrame, logs: Sequence[Remembered]) -> DataFrame:
    """`ID FILTER` of everything that was ever wanted or delivered, with the line that said so first."""
    from pyspark.sql import functions as sf

    columns = ("node", "order", "client", "topic")
    wished = named.where(sf.col("code").isin("asked", "wish", "guess") & ~sf.col("topic").rlike(patterns.OWN))
    delivered = parsed.where("code = 'deliver'").groupBy("node", "client", "topic").agg(sf.min("order").alias("order"))
    old = [
        (index, client, topic)
        for index, log in enumerate(logs)
        for client in sorted(log.sessions)
        for topic in sorted(log.sessions[client].wishes)
    ]
    before = spark.createDataFrame(
        [(node, place - len(old), client, topic) for place, (node, client, topic) in enumerate(old)],
        "node int, order long, client string, topic string",
    )
    everything = wished.select(*columns).unionByName(delivered.select(*columns)).unionByName(before)
    spelled = everything.withColumn("text", sf.concat_ws(" ", "client", "topic"))
    first = sf.struct(sf.col("order").alias("since"), "client", "topic")
    return spelled.groupBy("node", "text").agg(sf.min(first).alias("pair"))


def _by_node(values: Sequence[tuple[str, str]], names: tuple[str, str]) -> Column:
    """A constant for each broker."""
    from pyspark.sql import functions as sf

    structs = [sf.struct(sf.lit(one).alias(names[0]), sf.lit(other).alias(names[1])) for one, other in values]
    return sf.element_at(sf.array(*structs), sf.col("node") + 1)


def _facts(control: DataFrame, logs: Sequence[Remembered]) -> dict[str, Any]:
    """What to remember of each broker: its last block, and whether accepted wishes have lines of their own."""
    from pyspark.sql import functions as sf

    last = sf.max(sf.struct("order", "mode", "owner", "who", "what")).alias("last")
    rows = {row["node"]: row for row in control.groupBy("node").agg(last, sf.max("confirmed").alias("names")).collect()}
    modes = {"asks": "SUBSCRIBE", "gives up": "UNSUBSCRIBE", "will": "WILL", "": ""}
    facts: dict[str, Any] = {"blocks": [], "expected": [], "names_accepted": []}
    for index, log in enumerate(logs):
        row = rows.get(index)
        end = row["last"] if row is not None else None
        facts["blocks"].append((modes[end["mode"]], end["owner"]) if end is not None else log.block)
        facts["expected"].append((end["who"], end["what"]) if end is not None else log.expected)
        facts["names_accepted"].append(log.names_accepted or bool(row is not None and row["names"]))
    return facts


def _bridges(parsed: DataFrame, logs: Sequence[Remembered]) -> list[list[str]]:
    found = parsed.where("code = 'bridge'").select("node", "client").distinct().collect()
    return [
        sorted({*log.bridges, *(row["client"] for row in found if row["node"] == index)})
        for index, log in enumerate(logs)
    ]


def _is_left_out(bridges: Sequence[Sequence[str]]) -> Column:
    """Bridges, and our own taps; lines that are nobody's are not left out."""
    from pyspark.sql import functions as sf

    left = sf.col("client").rlike(patterns.LEFT_OUT)
    for index, names in enumerate(bridges):
        if names:
            left = left | ((sf.col("node") == index) & sf.col("client").isin(*names))
    return sf.coalesce(left, sf.lit(False))


def _sightings(lines: DataFrame) -> DataFrame:
    """One row for everything that matters to a client's history; of deliveries the first of each topic."""
    from pyspark.sql import functions as sf

    code = sf.col("code")
    kinds = {
        "connect": "connect", "bridge": "connect", "end": "end", "expire": "expire",
        "asked": "subscribe", "wish": "subscribe", "unwish": "unsubscribe",
    }  # fmt: skip
    kind = sf.element_at(sf.create_map(*[sf.lit(word) for pair in kinds.items() for word in pair]), code)
    said = lines.where(code.isin(*kinds)).select(
        "node", "order", "t_us", kind.alias("kind"), "client", sf.coalesce("topic", sf.lit("")).alias("topic"),
        sf.coalesce(sf.col("size") == 1, sf.lit(True)).alias("clean"),
    )  # fmt: skip
    first = sf.min(sf.struct("order", "t_us")).alias("first")
    got = lines.where("code = 'deliver'").groupBy("node", "client", "topic").agg(first)
    return said.unionByName(
        got.select(
            "node",
            "first.order",
            "first.t_us",
            sf.lit("deliver").alias("kind"),
            "client",
            "topic",
            sf.lit(True).alias("clean"),
        )
    )


def _counts(lines: DataFrame, ours: Column, nodes: int) -> list[dict[str, int]]:
    from pyspark.sql import functions as sf

    counts: list[dict[str, int]] = [{} for _ in range(nodes)]
    for row in lines.groupBy("node", "code", ours.alias("ours")).agg(sf.count("*").alias("lines")).collect():
        category = CATEGORY[row["code"]] if row["ours"] else "bridges"
        counts[row["node"]][category] = counts[row["node"]].get(category, 0) + row["lines"]
    return counts


def _examples(lines: DataFrame, nodes: int) -> list[list[str]]:
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    place = sf.row_number().over(Window.partitionBy("node").orderBy("order"))
    puzzling = lines.where(sf.col("code").isin("unknown", "torn")).withColumn("place", place)
    examples: list[list[str]] = [[] for _ in range(nodes)]
    for row in puzzling.where(f"place <= {EXAMPLES_MAX}").orderBy("node", "place").collect():
        examples[row["node"]].append(((TORN if row["code"] == "torn" else "") + row["text"])[:200])
    return examples
