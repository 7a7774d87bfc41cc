"""Bills and places as tables of a catalog, for whoever queries them: Parquet, Delta or Iceberg, a partition a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from coterie.errors import InputError
from coterie.pipeline.catalogs import check_format, save_bills, save_placement, save_seats
from coterie.pipeline.crowds.steps import PLACEMENT
from coterie.pipeline.job import LEDGERS, Outcome
from coterie.pipeline.tasks import part_files
from coterie.plans.tables import CLIENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.plans.plan import Plan

BILLS, SEATS = "bills", "placement"


def save_tables(
    spark: SparkSession, outcome: Outcome, schema: str, format: str = "parquet", plan: Plan | None = None
) -> list[str]:
    """Bills, and with a plan where everybody goes, as tables of a schema (made if there is none); their names.

    Rows of the same log that are there already give way. A plan of a crowd that moves nobody has no table of places.
    """
    from pyspark.errors import PySparkException

    check_format(spark, format)
    made = [f"{schema}.{BILLS}"]
    try:
        if not spark.catalog.databaseExists(schema):
            spark.sql(f"CREATE SCHEMA {schema}")
        save_bills(spark, outcome.folder / LEDGERS, outcome.name, made[0], format)
        if plan is not None and _save_places(spark, outcome, plan, f"{schema}.{SEATS}", format):
            made.append(f"{schema}.{SEATS}")
    except PySparkException as error:
        raise InputError(schema, f"cannot be written: {str(error).splitlines()[0]}") from None
    return made


def _save_places(spark: SparkSession, outcome: Outcome, plan: Plan, table: str, format: str) -> bool:
    placement = outcome.folder / "plans" / f"{plan.version:06d}" / PLACEMENT
    if part_files(placement):
        save_placement(spark, placement, outcome.name, table, format)
        return True
    clients = plan.table(CLIENTS)
    if clients is None:
        return False
    node, was = pa.array(plan.design.placement.node_of, pa.int32()), clients["attached"].cast(pa.int32())
    rows = pa.table({"client": clients["client"].cast(pa.string()), "node": node, "was": was})
    save_seats(spark, spark.createDataFrame(rows), outcome.name, table, format)
    return True
