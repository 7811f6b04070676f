"""psql's commands that list or describe something: none fails."""

from __future__ import annotations

import subprocess

import pytest

from tests.service.conftest import need_psql

LISTS = r"""
\d \dS \da \dA \dAc \dAf \dAo \dAp \db \dc \dC \dconfig \dd \dD \ddp \dE \des \det \deu \dew \df \dfa \dfn \dfp \dft \dfw
\dF \dFd \dFp \dFt \dg \di \dl \dL \dm \dn \do \dO \dp \dP \dPi \dPt \drds \dRp \dRs \ds \dt \dT \du \dv \dx \dX \dy \l \z
""".split()  # noqa: SIM905 - easier to read so
DETAILS = (
    r"""
\d visits;\d+ visits;\dp visits;\df dp_query;\df+ dp_*;\do =;\do + int4 int4;\dT int4;\dt *.*;\dtS;\dfS abs;\doS;\dn pg_*;\du alice;\l dpsql
\dC int4;\dc utf8*;\dO en*;\dA+ btree;\d *;\dconfig *zone*;\sf dp_query;\sf+ dp_budget;\lo_list;\conninfo;\encoding
""".strip()
    .replace("\n", ";")
    .split(";")
)
NOT_THERE = "Did not find any"
"""What psql says where nothing is listed."""


@pytest.mark.medium
@pytest.mark.client("psql", "15", "every command that lists or describes", "no table of the catalogue is described")
def test_whatever_psql_lists_is_listed(small):
    need_psql()
    commands = [*LISTS, *(f"{name}+" for name in LISTS if name != r"\z"), *DETAILS]
    command = ["psql", small.dsn(), "-X", "-A", "-P", "pager=off"]
    done = subprocess.run(command, input="\n".join(commands), capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if NOT_THERE not in line] == []
    for shown in ("-- dp_query(sql, epsilon", "visits|foreign table|dpsql", "dp_query", "shown|table|dpsql"):
        assert shown in done.stdout
