"""What a table's owner does from Python: protect it, declare domains and facts, change its account."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from dpsql.api.arguments import arguments_of
from dpsql.api.comparing.compare import compare
from dpsql.api.comparing.comparison import Comparison
from dpsql.api.comparing.settings import Compared, Settings
from dpsql.api.evaluated_tree import TreeEvaluation, evaluate_release_of_tree
from dpsql.api.linking import Linking
from dpsql.api.release import Release
from dpsql.engines.duckdb.names import current_schema
from dpsql.errors import InvalidArgument
from dpsql.owner.account_changes import forgive, raise_budget, reset, retire, settle, unprotect
from dpsql.owner.constraints import unconstrain
from dpsql.owner.evaluate import Evaluation, evaluate
from dpsql.owner.link_rules import state_fact
from dpsql.owner.protect import Protected, protect
from dpsql.owner.sharing import share
from dpsql.owner.sources import RegisteredSource
from dpsql.privacy.account import Account
from dpsql.udfs.dp_protect import check_shared
from dpsql.udfs.dp_source import DpSource, register_source
from dpsql.udfs.interrupts import pressed, watched


class Owner(Linking):
    """The methods of owners; they are refused on a connection that was opened with `owner=False`."""

    def protect(
        self,
        table: str,
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str = "add_remove",
        privacy_unit: str | None = None,
        max_rows: int | None = None,
        *,
        enums: bool = False,
        account: str | None = None,
        period: str | None = None,
        by: str | None = None,
    ) -> Protected:
        """Give a table a privacy budget, once: all its releases together will be (ε, δ)-DP. See `dp_protect`.

        The promise is for tables that differ by one row; with `privacy_unit` by all rows of one unit, of which at most
        `max_rows` count. `enums=True` is the owner's word that the members of the table's ENUM types are public,
        whatever rows there are. The account's `note` names other tables that seem to be about the same people: their ε
        adds up, unless `account` names a protected table of theirs, whose budget this one shares.

        With `period` each `day`, `week`, `month`, `quarter` or `year` has that budget, for the rows that lie in it by
        their value of the column `by`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     db.protect("t", epsilon=3.0, delta=1e-9).epsilon_left
        3.0
        """
        self.instance.check_owner("protect")
        with self.instance.cursor() as cursor:
            source = self._source(cursor, table)
            if account is not None:
                given = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "enums": enums}
                given |= {"period": period, "by": by}
                check_shared(given)
                return share(cursor, source, self._source(cursor, account), privacy_unit, max_rows)
            if epsilon is None or delta is None:
                raise InvalidArgument(f"{'epsilon' if epsilon is None else 'delta'} is missing: say epsilon=…, delta=…")
            how = (epsilon, delta, neighbours, privacy_unit, max_rows)
            return protect(cursor, source, *how, enums=enums, period=period, by=by)

    def source(
        self,
        name: str,
        engine: str | None = None,
        *,
        files: str | Sequence[str] | None = None,
        relation: str | None = None,
        snapshot: int | None = None,
        catalog: str | None = None,
        secret: str | None = None,
        environment: str | None = None,
        identity: str | Sequence[str] | None = None,
        sample: int | None = None,
        rows: int | None = None,
        other_rows: str | None = None,
    ) -> RegisteredSource:
        """Register a table whose rows stay where they are; it becomes an empty table here. See `dp_source`.

        >>> import dpsql, tempfile
        >>> with dpsql.connect() as db, tempfile.TemporaryDirectory() as lake:
        ...     _ = db.sql(f"COPY (SELECT 42 AS age) TO '{lake}/visits.parquet'")
        ...     db.source("visits", files=f"{lake}/*.parquet").columns
        ('age',)
        """
        self.instance.check_owner("source")
        given: dict[str, Any] = {"files": files, "relation": relation, "snapshot": snapshot, "catalog": catalog}
        given |= {"secret": secret, "environment": environment, "identity": identity, "sample": sample, "rows": rows}
        given["other_rows"] = other_rows
        arguments = arguments_of(DpSource, {"name": name, "engine": engine, **given})
        return register_source(self.instance, arguments, self._search_path)

    def raise_budget(self, table: str, epsilon: float, reason: str) -> Account:
        """Promise a larger ε of all releases of a table, at the same δ; the ledger keeps the reason.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=1.0, delta=1e-9)
        ...     db.raise_budget("t", epsilon=2.0, reason="the board agreed on 3 May").epsilon
        2.0
        """
        self.instance.check_owner("raise_budget")
        with self.instance.cursor() as cursor:
            return raise_budget(cursor, self._source(cursor, table), epsilon, reason)

    def reset(self, table: str, reason: str) -> Account:
        """Begin the account of a table anew, for rows about other people; about the same it breaks the promise.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=1.0, delta=1e-9)
        ...     db.reset("t", reason="the visits of 2026, of other people").epsilon_left
        1.0
        """
        self.instance.check_owner("reset")
        with self.instance.cursor() as cursor:
            return reset(cursor, self._source(cursor, table), reason)

    def retire(self, table: str, reason: str) -> Account:
        """Let nothing more of a table be charged; what was published stays.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=1.0, delta=1e-9)
        ...     db.retire("t", reason="the study has ended").retired
        True
        """
        self.instance.check_owner("retire")
        with self.instance.cursor() as cursor:
            return retire(cursor, self._source(cursor, table), reason)

    def forgive(self, table: str, reason: str) -> Account:
        """Let releases of a table be charged again of which too many were stopped; what those cost stays spent.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=1.0, delta=1e-9)
        ...     db.forgive("t", reason="the disk was full").epsilon_left
        1.0
        """
        self.instance.check_owner("forgive")
        with self.instance.cursor() as cursor:
            return forgive(cursor, self._source(cursor, table), reason)

    def unprotect(self, table: str, reason: str) -> None:
        """Take back the protection of a table to which nothing was ever charged, with its domains and constraints.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE wards (name VARCHAR)")
        ...     _ = db.protect("wards", epsilon=1.0, delta=1e-9)
        ...     db.unprotect("wards", reason="a look-up table, protected by mistake")
        ...     len(db.budget())
        0
        """
        self.instance.check_owner("unprotect")
        with self.instance.cursor() as cursor:
            unprotect(cursor, self._source(cursor, table), reason)

    def settle(self, reason: str, table: str | None = None) -> None:
        """Confirm that no protected row is in a table that is not protected; see `dpsql ledger settle`.

        Args:
            reason: why, for the ledger.
            table: the one; it stays public whatever rows come under its name. Without it, all tables of the current
                database that are not protected, with the rows that they hold now.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=1.0, delta=1e-9)
        ...     db.settle(reason="nothing else was ever protected")
        """
        self.instance.check_owner("settle")
        with self.instance.cursor() as cursor:
            source = None if table is None else self._source(cursor, table)
            settle(cursor, current_schema(cursor, self._search_path)[0], reason, source)

    def constraint(self, table: str, predicate: str, *, remove: bool = False, looked: bool = False) -> None:
        """State a public fact that every synthetic row must satisfy. See `dp_constraint` in SQL.

        Args:
            table: the protected table.
            predicate: SQL over the columns of one row; in linked tables of rows above it and with a role, too.
            remove: take the fact back.
            looked: you read it off the rows, so it is your disclosure.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick, i % 6 = 0 AS fever FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.constraint("t", "sick OR NOT fever")
        ...     int(db.synthesize("t", epsilon=1.0).df().eval("fever == True and sick == False").sum())
        0
        """
        self.instance.check_owner("constraint")
        with self.instance.cursor() as cursor:
            source = self._source(cursor, table)
            if remove:
                unconstrain(cursor, source, predicate)
            else:
                state_fact(cursor, source, predicate, looked=looked)

    def evaluate(
        self,
        table: str,
        release: int | str | Release,
        target: str | None = None,
        *,
        workload: str | None = None,
        groups: Sequence[str] = (),
    ) -> Evaluation | TreeEvaluation:
        """How good a synthetic table is, beside the real rows: private, free, and nothing is recorded.

        Of a linked release all tables are compared: each by itself, joined, and how many rows there are below each row.

        Args:
            table: the protected table.
            release: of it, or its number, name or key; or the name of a table with the same columns.
            target: a column that models predict, trained on synthetic and tested on real rows; needs scikit-learn,
                `pip install 'dpsql[evaluate]'`.
            workload: SQL or a shorthand, such as `64 random 3-way seed 0`: how far each of its answers is off.
            groups: columns, such as area and year: how alike pairs of other columns are within each group.

        Returns:
            The figures, which print with a warning: they are not differentially private.

        Raises:
            DpsqlError: a child says what is wrong.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick, i % 6 = 0 AS fever FROM range(6000) r(i)")
        ...     _ = db.protect("t", epsilon=9.0, delta=1e-9)
        ...     release = db.synthesize("t", epsilon=9.0)
        ...     db.evaluate("t", release).utility.l1_pairs < 0.1
        True
        """
        self.instance.check_owner("evaluate")
        key = release.entry.key if isinstance(release, Release) else str(release)
        with pressed(), self.instance.cursor() as cursor:
            source = self._source(cursor, table)
            tree = evaluate_release_of_tree(cursor, source, key, target=target, workload=workload, groups=groups)
            if tree is not None:
                return tree
            return evaluate(cursor, source, key, self._search_path, target=target, workload=workload, groups=groups)

    def compare(
        self,
        table: str,
        mechanisms: Sequence[str] | str,
        *,
        folder: str | Path | None = None,
        **settings: Unpack[Compared],
    ) -> Comparison:
        """How good mechanisms are on a table, each release in a process of its own: private, and nothing is charged.

        The releases are made of a copy of the table with an account of its own. They are deleted; only figures are
        kept, which are computed from the real rows. So they are for the owner alone.

        Args:
            table: the protected table.
            mechanisms: each a name, or `name:option=value,option=value`; `all` stands for every name,
                `rounds=5|10` for two settings.
            folder: where every run is written when it has ended; the same call goes on from there. By default nowhere.
            **settings: `epsilons` (0.1, 1, 10), `runs` of each (3), `workloads` (the default one), `columns` (all),
                `prior`, `target`, `groups`, `vary`, an option and its values such as `rounds=5,10`, and `seconds`,
                after which a run is ended (600). `delta` is another one than the table's, `load` files of mechanisms,
                `labels` what mechanisms are called. `best_of`, `largest`, `l1` or `rmse`, draws the best setting of
                each mechanism: it is chosen on the real rows, so it is an evaluation only.

        Returns:
            The figures, which print with a warning as a table of medians; `.df` has every run, `.plot()` draws them.

        Raises:
            DpsqlError: a child says what is wrong. What a mechanism refuses is no error: the table says why.
            Interrupted: by `interrupt` or Ctrl-C; the folder has the runs that had ended.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick, i % 6 = 0 AS fever FROM range(6000) r(i)")
        ...     _ = db.protect("t", epsilon=9.0, delta=1e-9)
        ...     found = db.compare("t", ["direct", "mwem:rounds=2"], epsilons=[1.0], runs=1, workloads=["all 2-way"])
        >>> len(found.df), bool(found.df.workload_largest.max() < 0.5)
        (2, True)
        """
        self.instance.check_owner("compare")
        mechanisms = (mechanisms,) if isinstance(mechanisms, str) else tuple(mechanisms)
        settings_of_call = Settings(mechanisms, **settings)
        with pressed(), watched(self.instance) as progress, self.instance.cursor() as cursor:
            source = self._source(cursor, table)
            place = None if folder is None else Path(folder)
            return compare(cursor, source, settings_of_call, place, progress, self._search_path)
