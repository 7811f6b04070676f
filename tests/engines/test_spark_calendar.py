"""Dates before 1582: a session that would stop at one, as those of Spark 3 do, is refused before anything is read."""

from __future__ import annotations

import pytest

from dpsql.engines.spark.calendar import SETTINGS
from dpsql.errors import DpsqlError

from .spark_bank import WAYS, lot

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_stops_at_old_dates(tmp_path, way):
    """Only where the table has dates."""
    with lot(tmp_path) as found:
        found.sql(
            "CREATE TABLE {s}.dated USING parquet AS SELECT DATE '2000-01-01' AS born FROM range(9)",
            "CREATE TABLE {s}.plain USING parquet AS SELECT id FROM range(9)",
        )
        for setting in SETTINGS["parquet"]:
            before = found.spark.session.conf.get(setting)
            found.source("dated", way)
            try:
                found.sql(f"SET {setting} = EXCEPTION")
                found.source("plain", way)
                with pytest.raises(DpsqlError, match=f"SET {setting} = CORRECTED"):
                    found.source("dated", way)
            finally:
                found.sql(f"SET {setting} = {before}")
