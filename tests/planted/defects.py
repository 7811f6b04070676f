"""The list of planted defects: what of which file is replaced by what, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """One change of the source.

    Attributes:
        name: what is wrong then.
        file: in which file.
        before: the text that is replaced; it stands there once.
        after: what stands in its place.
        tests: of which one must fail, as arguments of pytest.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


NEIGHBOURS = ("tests/contract/test_neighbours.py",)
QUESTIONS = ("tests/statistical/test_questions.py",)
PLANTED = ("tests/contract/test_planted.py",)
ORACLES = ("tests/books/test_oracles.py",)
LEDGER = ("tests/books/test_ledger.py", "tests/books/test_books.py")

DEFECTS = (
    # sensitivities
    Defect("noise lacks the 1/8", "dpsql/privacy/accounting.py", "return Fraction(l2_squared) / (2 * rho) + Fraction(1, 8)", "return Fraction(l2_squared) / (2 * rho)", (*NEIGHBOURS, "tests/privacy")),
    Defect("a row that is replaced changes one count", "dpsql/core/neighbours.py", "return 2 if self.total_is_public else self.cell**2", "return 1 if self.total_is_public else self.cell**2", NEIGHBOURS),
    Defect("a unit of c rows changes a marginal by √c", "dpsql/core/neighbours.py", "return 2 if self.total_is_public else self.cell**2", "return 2 if self.total_is_public else self.cell", NEIGHBOURS),
    Defect("L1 of a row that is replaced is 1", "dpsql/core/neighbours.py", "return 2 if self.total_is_public else self.cell\n\n    @property\n    def marginal_l2_squared", "return self.cell\n\n    @property\n    def marginal_l2_squared", NEIGHBOURS),
    Defect("a unit counts as one row", "dpsql/core/neighbours.py", "return self.unit_rows or 1", "return 1", NEIGHBOURS),
    Defect("a unit has one value", "dpsql/core/neighbours.py", "        return 2 if self.total_is_public else self.cell\n\n    @property\n    def words", "        return 2 if self.total_is_public else 1\n\n    @property\n    def words", ("tests/privacy", "tests/engines/test_units.py", *QUESTIONS)),
    Defect("sums are as noisy as counts", "dpsql/privacy/linear.py", "noise.scale(rho, scale**noise.norm * change)", "noise.scale(rho, change)", NEIGHBOURS),
    Defect("Laplace noise by the L2 sensitivity", "dpsql/privacy/linear.py", "query.sensitivity(noise.norm, neighbours)", "query.sensitivity(2, neighbours)", NEIGHBOURS),
    Defect("linear queries are as noisy as counts", "dpsql/privacy/linear_families.py", "family.largest**noise.norm * change", "change", ("tests/mechanisms/test_linear_queries.py",)),
    Defect("a mechanism says how much a row changes", "dpsql/privacy/linear_families.py", "distribution, anew=True)", "distribution)", ("tests/mechanisms/test_linear_queries.py",)),
    Defect("weights of scores are free", "dpsql/privacy/selection.py", "self._most_moved(families, factors), count)", "self._most_moved(families, [1] * len(factors)), count)", (*NEIGHBOURS, "tests/privacy/test_choices.py", *QUESTIONS)),
    Defect("a row changes one threshold of a family", "dpsql/core/threshold.py", "return neighbours.cell * most_counted(shape, family.least)", "return neighbours.cell", ("tests/core/test_threshold.py", "tests/privacy/test_choices.py")),
    Defect("every row has a cell in thresholds", "dpsql/core/threshold.py", "return found if every_row else max(found, most_counted(shape, family.least))", "return found", ("tests/core/test_threshold.py",)),
    Defect("a run that goes on has the epsilon of its request", "dpsql/release/pipeline.py", "pure_charged(books, entry) or work.budget.exact_epsilon", "work.budget.exact_epsilon", ("tests/mechanisms/test_least_epsilon.py", "tests/release/test_changes.py")),
    Defect("a row that is replaced is added to thresholds", "dpsql/core/threshold.py", "        found = most_replaced(shape, family.least)\n", "        found = most_counted(shape, family.least)\n", ("tests/core/test_threshold.py", "tests/privacy/test_choices.py")),
    Defect("the factor of draws is free", "dpsql/privacy/selection.py", "self._draws(signed, rho, factor * self.neighbours.cell, count)", "self._draws(signed, rho, self.neighbours.cell, count)", NEIGHBOURS),
    # noise
    Defect("half the variance", "dpsql/privacy/distributions.py", "return discrete_gaussian(scale, count, entropy)", "return discrete_gaussian(scale / 2, count, entropy)", QUESTIONS),
    Defect("no noise", "dpsql/privacy/distributions.py", "return discrete_gaussian(scale, count, entropy)", "return 0 * discrete_gaussian(scale, count, entropy)", QUESTIONS),
    Defect("Laplace noise of half the scale", "dpsql/privacy/distributions.py", "return discrete_laplace(scale, count, entropy)", "return discrete_laplace(scale / 2, count, entropy)", QUESTIONS),
    Defect("choices at twice the rate", "dpsql/privacy/asking.py", "        rate = selection_rate(rho, sensitivity)\n", "        rate = 2 * selection_rate(rho, sensitivity)\n", (*NEIGHBOURS, *QUESTIONS)),
    Defect("draws at twice the rate", "dpsql/privacy/asking.py", "exponential_sample(scores, selection_rate(rho, sensitivity),", "exponential_sample(scores, 2 * selection_rate(rho, sensitivity),", (*NEIGHBOURS, *QUESTIONS)),
    Defect("rare values are told", "dpsql/privacy/discovery.py", "if count >= enough)", "if count >= enough // 2)", ("tests/release/test_discovery.py", "tests/privacy", *QUESTIONS)),
    Defect("the kernel draws from Python's generator", "dpsql/privacy/asking.py", "from fractions import Fraction\n", "from fractions import Fraction\nfrom random import random  # noqa: F401\n", ("tests/privacy/test_paths.py",)),
    Defect("a sensitivity forgets the sums of products", "dpsql/core/linear_query.py", "sums = [a for a in range(self.aggregates) if a not in self.units]", "sums = [a for a in range(self.aggregates) if a not in self.units and not isinstance(self.moments.get(a), Product)]", (*NEIGHBOURS, *QUESTIONS)),
    Defect("bins of a histogram share a sensitivity with no other sum", "dpsql/core/linear_query.py", "bound = min(bound, sum(bounds))", "bound = min(bound, max(bounds))", NEIGHBOURS),
    Defect("products are not clamped", "dpsql/engines/sql/sums.py", "        return dialect.clamped(dialect.multiplied(first, second, moment.multiplier), moment.low, moment.high)\n", "        return dialect.multiplied(first, second, moment.multiplier)\n", ("tests/engines/test_conformance.py",)),
    # accounting
    Defect("Laplace noise costs as Gaussian noise", "dpsql/privacy/accounting.py", "OTHER_PRICE: Final = Fraction(11, 7)", "OTHER_PRICE: Final = Fraction(1)", ("tests/privacy",)),
    Defect("what is spent is rounded down", "dpsql/privacy/accounting.py", "return -(-rho.numerator * (1 << RHO_BITS) // rho.denominator)", "return rho.numerator * (1 << RHO_BITS) // rho.denominator", ("tests/privacy",)),
    Defect("a question costs half its g", "dpsql/privacy/purse.py", "dear = asked * kind.gdp", "dear = asked / 2", (*PLANTED, "tests/privacy")),
    Defect("twice the charge may be asked", "dpsql/privacy/purse.py", "            if cost > left:", "            if cost > 2 * left:", (*PLANTED, "tests/privacy")),
    Defect("undeclared kinds are answered", "dpsql/privacy/purse.py", "if not any(kind is known for known in self.kinds):", "if False:", PLANTED),
    Defect("a selection's range is its rate", "dpsql/privacy/distributions.py", "    span = 2\n", "    span = 1\n", ("tests/privacy", "tests/contract/test_mechanisms.py")),
    Defect("mechanisms ask for queries", "dpsql/privacy/asking.py", "        if self._for_mechanism:\n", "        if False:\n", PLANTED),
    Defect("numbers from a mechanism are believed", "dpsql/privacy/given.py", "    if found < 1 or (most is not None and found > most):", "    if False:", PLANTED),
    Defect("the budget may be overspent", "sql/charge.sql", "WHEN 'gdp' THEN gdp_spent + $gdp <= gdp_budget", "WHEN 'gdp' THEN gdp_spent <= gdp_budget", ("tests/books/test_races.py", "tests/books/test_books.py", "tests/books/test_ledger.py", "tests/privacy/test_accounts.py")),
    # the journal and the ledger
    Defect("answers are not kept before they are used", "dpsql/privacy/asking.py", "        self._record(made)\n        return [*recorded, *made]", "        return [*recorded, *made]", ("tests/release/test_faults.py", "tests/books/test_books.py")),
    Defect("other questions get recorded answers", "dpsql/privacy/asking.py", "            if answer.question.text != question.text:", "            if False:", ("tests/privacy", "tests/books/test_books.py", "tests/contract")),
    Defect("the ledger counts no ρ", "dpsql/privacy/rules.py", '"rho_spent": str(int(facts["rho_spent"]) + rho),', '"rho_spent": facts["rho_spent"],', LEDGER),
    Defect("other answers may be published", "dpsql/privacy/rules.py", 'if charged.answers is not None and event["answers"] != charged.answers:', "if False:", (*LEDGER, "tests/scale")),
    Defect("a release that was stopped and completed is forgotten", "dpsql/privacy/rules.py", "replace(charged, retried=True)", "charged", ORACLES),
    Defect("any number of releases may be stopped", "dpsql/books/charging.py", "    _refuse_stopped(asked, before.state)\n", "", ORACLES),
    Defect("rows are read again without end", "dpsql/books/stopped.py", "        if len(before) >= MOST_RETRIES:", "        if False:", ORACLES),
    Defect("a lost release is charged again", "dpsql/books/charging.py", "    _refuse_lost(books, asked.key, before.state.anchor)\n", "", LEDGER),
    Defect("an account opened anew is charged", "dpsql/books/charging.py", "    if promised.since != asked.since:", "    if False:", ("tests/release/test_changes.py",)),
    Defect("what was written is not read back", "dpsql/books/publication.py", "            if fingerprint(books.cursor, table, drawn.named_selects, filled) != written:", "            if False:", ("tests/scale",)),
    Defect("answers are not read back", "dpsql/books/publication.py", "    if journal.digest_of_answers(books, entry.key) != answers:", "    if False:", ("tests/scale",)),
    Defect("cells of no answer are passed over", "dpsql/books/journal.py", "    if not rows or not sizes.keys() <= {row[\"number\"] for row in rows}:", "    if not rows:", ("tests/books/test_journal.py",)),
    Defect("answers of another run are not read", "dpsql/books/journal.py", "        if _digests(self._books, self._entry.key) == [digest(answer) for answer in self._held]:", "        if True:", ("tests/books/test_journal.py",)),
    # what is counted
    Defect("units are not bounded", "dpsql/release/pipeline.py", "    bound = accounts.bound(books, entry.source)\n", "    bound = None\n", ("tests/engines/test_units.py",)),
    Defect("a unit has a row more", "dpsql/engines/duckdb/units.py", "expression=exp.Literal.number(self.rows)))", "expression=exp.Literal.number(self.rows + 1)))", (*NEIGHBOURS, "tests/engines/test_units.py")),
    Defect("rows without a unit count", "dpsql/engines/duckdb/units.py", "        known = known.where(exp.Not(this=exp.Is(this=self.key(), expression=exp.null())))\n", "", (*NEIGHBOURS, "tests/engines/test_units.py")),
    Defect("units are compared under a collation", "dpsql/core/column_types/base.py", "    unit_key: str = TEXT_BYTES\n", '    unit_key: str = "x"\n', ("tests/engines/test_units.py",)),
    Defect("members of an ENUM are public by themselves", "dpsql/core/column_types/enums.py", "members=members, equal_text", "members=members, declares_itself=True, equal_text", ("tests/core/test_column_types.py", "tests/books/test_public.py")),
    Defect("steps of a type are others than its ticks", "dpsql/core/column_types/time_ns.py", "epoch_ns(x)", "epoch_us(x)", ("tests/core/test_column_types.py",)),
    Defect("integer division is the caller's", "dpsql/engines/duckdb/settings.py", '    "integer_division": "false",\n', "", ("tests/engines/test_settings.py",)),
    Defect("every table is public", "dpsql/books/reads.py", "return tables_read(cursor, query) == {source.parts} and not is_protected(cursor, source)", "return True", ("tests/books/test_public.py",)),
    Defect("an engine's own words leave it", "dpsql/engines/duckdb/counting.py", "        raise CountingFailed from None\n", "        raise\n", ("tests/engines/test_conformance.py",)),
    Defect("an interrupt leaves a transaction open", "dpsql/engines/duckdb/counting.py", "                    self._roll_back()\n", "", ("tests/engines/test_conformance.py",)),
    Defect("errors of DuckDB are told", "dpsql/release/pipeline.py", "        raise DpsqlError(_STOPPED) from None\n", "        raise\n", ORACLES),
    # how a column is declared
    Defect("values that stand for NULL are values", "dpsql/engines/duckdb/reading.py", "    if not attribute.nulls_as:\n        return is_null\n", "    return is_null\n", ("tests/engines/test_reading.py", "tests/engines/test_conformance.py")),
    Defect("texts for NULL are compared under a collation", "dpsql/engines/duckdb/reading.py", '        bytes_of = exp.func("encode", text_of(column.copy()), dialect="duckdb")\n        listed = [exp.func("encode", exp.Literal.string(text), dialect="duckdb") for text in attribute.nulls_as]\n', '        bytes_of = text_of(column.copy())\n        listed = [exp.Literal.string(text) for text in attribute.nulls_as]\n', ("tests/engines/test_reading.py",)),
    Defect("a text that is no number stops the count", "dpsql/engines/duckdb/reading.py", "    return exp.TryCast(this=text, to=data_type(attribute.type))", "    return exp.Cast(this=text, to=data_type(attribute.type))", ("tests/engines/test_reading.py", "tests/engines/test_conformance.py")),
    Defect("a bin beside a point holds it too", "dpsql/engines/duckdb/declare_points.py", "        return point + 1\n", "        return point + 2\n", ("tests/engines/test_reading.py", "tests/udfs/test_domain_steps.py")),
    Defect("points are smoothed with the bins beside them", "dpsql/core/domain.py", "ends = [-1, *sorted(self.point_codes), self.regular]", "ends = [-1, self.regular]", ("tests/fitting/relaxed/test_smoothness.py", "tests/release/test_inside_bins.py")),
    Defect("heavy values need not be common", "dpsql/privacy/discovery.py", "            enough = max(enough, least or 0)\n", "            enough = least or enough\n", ("tests/privacy", "tests/release/test_heavy.py")),
    Defect("points are discovered for nothing", "dpsql/release/discovery_plan.py", "    of_values = facts.whole is None or request.heavy is not None\n", "    of_values = facts.whole is None\n", ("tests/release/test_heavy.py",)),
    Defect("requests of before get new keys", "dpsql/core/domain.py", "if name not in _LATER or value}", "}", ("tests/engines/test_reading.py", "tests/contract/test_golden.py")),
    Defect("ids are NULL", "dpsql/books/publication.py", "else others.get(name)\n", "else None\n", ("tests/release/test_stand_ins.py",)),
    Defect("a density in a bin is negative", "dpsql/release/inside_bins.py", ".clip(-1.0, 1.0)", ".clip(-4.0, 4.0)", ("tests/release/test_inside_bins.py",)),
    # what is told
    Defect("noise becomes NULLs", "dpsql/evidence/occupied.py", "_DEVIATIONS: Final = 4.0", "_DEVIATIONS: Final = -4.0", ("tests/release/test_outside.py",)),
    Defect("intervals of 68 %", "dpsql/release/intervals.py", "OUTSIDE: Final = 0.05", "OUTSIDE: Final = 0.32", ("tests/privacy/test_distributions.py", "tests/release/test_query.py", "tests/statistical/test_query_coverage.py")),
    Defect("keys of requests change", "dpsql/core/linear_query.py", 'f"Moment({', 'f"Moments({', ("dpsql/core/linear_query.py", "tests/contract/test_golden.py")),
    # the service
    Defect("what EXPLAIN explains is not what runs", "dpsql/service/allowlist.py", 'Checked(f"EXPLAIN {selects}" if explains else sql,', "Checked(sql,", ("tests/service/test_hostile.py",)),
    Defect("parts of a statement that nobody knows are served", "dpsql/service/allowlist.py", "if isinstance(kind, str) and kind not in known:", "if False:", ("tests/service/test_hostile.py",)),
    Defect("arguments of calls may be drawn at random", "dpsql/service/allowlist.py", "if kind is not None and kind not in _CONSTANTS:", "if False:", ("tests/service/test_hostile.py",)),
    Defect("to describe a call is to make it", "dpsql/service/pgwire/portals.py", "            if checked.calls:\n                return", "            if False:\n                return", ("tests/service/test_clients.py",)),
    Defect("who is shown a table no longer reads its new rows", "dpsql/service/calls.py", 'return frozenset((name, str(table["audience"])) for name, table in self.tables.items())', 'return frozenset((name, "") for name in self.tables)', ("tests/service/test_users.py",)),
    Defect("a login has no deadline in the handshake", "dpsql/service/pgwire/startup.py", "do_handshake_on_connect=False", "do_handshake_on_connect=True", ("tests/service/test_silent.py",)),
    Defect("a wrong password is a right one", "dpsql/service/scram.py", "        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._known.stored_key):\n            raise WrongProof\n", "", ("tests/service/test_clients.py", "tests/service/test_wire.py")),
    Defect("a call is charged that no line tells of", "dpsql/service/keeper.py", "            raise NotAudited(", "            print(", ("tests/service/test_users.py",)),
    Defect("lines of the audit log are not chained", "dpsql/service/audit_log.py", 'line.get("previous") != previous', "False", ("tests/service/test_audit_log.py",)),
    Defect("what was bound holds, whatever the owner changed since", "dpsql/books/unchanged.py", "if same and not other else None", "if same else None", ("tests/service/test_turns.py",)),
    Defect("who asks again waits behind those who pay", "dpsql/service/keeper.py", "if function in CHARGING and not bound.is_stored:", "if function in CHARGING:", ("tests/service/test_turns.py",)),
    # reports
    Defect("a report counts the private table", "dpsql/release/quality.py", "    source = Source(table.catalog, table.db, table.name, columns)\n", "    source = Source(table.catalog, 'main', entry.source, columns)\n", ("tests/report/test_report.py",)),
    Defect("a private report is anybody's", "dpsql/api/private_truth.py", '    database.instance.check_owner("report(private=True)")\n', "", ("tests/report/test_report.py",)),
    Defect("names are markup", "dpsql/report/page.py", "autoescape=True", "autoescape=False", ("tests/report/test_report.py",)),
    # declarations
    Defect("init reads rows without --owner-looks", "dpsql/api/proposing/propose.py", "(look(c, context, source) if owner_looks else public.propose(c, context))", "look(c, context, source)", ("tests/api/test_init.py",)),
    Defect("a protected table is a codebook", "dpsql/books/codebook.py", "        if not is_public(cursor, table):", "        if False:", ("tests/udfs/test_domains.py",)),
    Defect("some columns are declared although others are wrong", "dpsql/owner/declarations.py", "    if wrong:\n", "    if wrong and not found:\n", ("tests/udfs/test_domains.py",)),
    Defect("a script spends without saying so", "dpsql/api/proposing/script.py", "    if price:\n", "    if False:\n", ("tests/api/test_init.py",)),
    Defect("rare values are named in a script", "dpsql/api/proposing/looked_parts.py", "LEAST: Final = 10\n", "LEAST: Final = 1\n", ("tests/api/test_init.py",)),
    # tables in Postgres
    Defect("Postgres: a unit has a row more", "dpsql/engines/postgres/units.py", "expression=exp.Literal.number(self.rows))\n        return exp.select(*map", "expression=exp.Literal.number(self.rows + 1))\n        return exp.select(*map", ("tests/engines/test_postgres_statements.py",)),
    Defect("Postgres: the key of units stands in a statement", "dpsql/engines/postgres/units.py", "this=exp.Parameter(this=exp.Literal.number(1))", 'this=exp.Anonymous(this="decode", expressions=[exp.Literal.string(self.key.hex()), exp.Literal.string("hex")])', ("tests/engines/test_postgres_statements.py",)),
    Defect("Postgres: each count is of a snapshot of its own", "dpsql/engines/postgres/session.py", '_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"', '_BEGIN: Final = "BEGIN READ ONLY"', ("tests/engines/test_postgres_statements.py",)),
    Defect("Postgres: its own words leave", "dpsql/engines/sql/session.py", "            raise self._failed(error, interrupted=self._interrupts > before) from None\n", "            raise\n", ("tests/engines/test_postgres_faults.py",)),
    Defect("Postgres: a column is cast", "dpsql/engines/postgres/dialect.py", "        column = column_of(name)\n        return _by_bytes(column) if", '        column = exp.cast(column_of(name), "TEXT")\n        return _by_bytes(column) if', ("tests/engines/test_postgres_statements.py",)),
    Defect("Postgres: operators are those of the user", "dpsql/engines/postgres/dialect.py", "        \"SET search_path = 'pg_catalog'\",\n", "", ("tests/engines/test_postgres_statements.py",)),
    Defect("Postgres: what comes back is believed", "dpsql/engines/checked.py", "    if (counts <= 0).any() or sum(counts.tolist()) != rows:\n", "    if False:\n", ("tests/engines/test_postgres_checked.py",)),
    Defect("Postgres: a sum may overflow", "dpsql/engines/postgres/formulas.py", "    if number.least < _SMALLEST or", "    if", ("tests/engines/test_postgres_source.py",)),
    Defect("Postgres: another server is counted", "dpsql/engines/postgres/engine.py", "        raise OtherPlace(named_in(said), \"server or database\")\n", "        pass\n", ("tests/engines/test_postgres_faults.py",)),
    # RAP in one round, priors that reach too short, HDMM and PGM
    Defect("RAP: a cell of a marginal pays for all", "dpsql/mechanisms/rap_once.py", "Fraction(len(cliques) * neighbours", "Fraction(cells * neighbours", ("tests/mechanisms/test_rap_once.py",)),
    Defect("RAP: T and K look at nothing but epsilon", "dpsql/mechanisms/rap_grid.py", "_NOISE * rows]", "_NOISE * 100]", ("tests/mechanisms/test_rap_once.py",)),
    Defect("a short prior is not said", "dpsql/evidence/prior_reach.py", "reached, count = inside[cells], len(cells)", "reached, count = np.ones(len(cells), bool), len(cells)", ("tests/mechanisms/test_prior_reach.py",)),
    Defect("noise is said to be a short prior", "dpsql/evidence/prior_reach.py", "_DEVIATIONS: Final = 5.0", "_DEVIATIONS: Final = -5.0", ("tests/mechanisms/test_prior_reach.py",)),
    Defect("IDE: nothing is beyond the prior", "dpsql/mechanisms/ide_run.py", 'if self.asked.reach != "cells":', "if True:", ("tests/mechanisms/test_prior_reach.py",)),
    Defect("IDE: cells that do not stand out are met", "dpsql/mechanisms/ide_run.py", "Partial.of(cells, None if inside.all() else inside)", "Partial.of(cells)", ("tests/mechanisms/test_prior_reach.py",)),
    Defect("the second stage leaves the prior", "dpsql/fitting/rows/two_stages.py", "_nearest(np.log(prior[left])", "_nearest(0 * np.log(prior[left])", ("tests/mechanisms/test_prior_reach.py",)),
    Defect("PMW-Pub as published meets all answers again", "dpsql/mechanisms/pmwpub.py", "targets_of(answered) if newest else told", "told", ("tests/mechanisms/test_pmwpub.py",)),
    Defect("HDMM: Laplace noise is weighed as Gaussian", "dpsql/fitting/laplace_strategy.py", "logs = min(found, key=lambda entry: entry[0])[1]", "logs = np.log(gaussian**2 + 1e-9)", ("tests/mechanisms/test_hdmm.py",)),
    Defect("MST: a merged value is the first of them", "dpsql/evidence/rare_values.py", "generator.integers(0, counts[codes])", "0 * codes", ("tests/mechanisms/test_hdmm.py",)),
    # what is told of a promise
    Defect("delta is told as the probability of more than the factor", "dpsql/privacy/promised.py", "    likely = up(largest_excess(budget.gdp, budget.epsilon), 2)\n", "    likely = up(budget.delta, 2)\n", ("tests/report/test_promises.py",)),
    Defect("the excess of a normal number is told of all that is computed", "dpsql/privacy/promised.py", "    return min(1.0, math.exp(float(log_ndtr(mu - low))) * (1 + _SLACK * (1 + low**2)))", "    return normal_excess(gdp, epsilon)", ("tests/privacy/test_promised.py",)),
    Defect("the mu of a guarantee is rounded down", "dpsql/privacy/promised.py", 'return f"{up(mu_of(budget.gdp))}-Gaussian DP"', 'return f"{math.sqrt(2 * budget.gdp):.6g}-Gaussian DP"', ("tests/report/test_promises.py",)),
    Defect("losses are rounded to the nearest", "dpsql/core/digits.py", "return _rounded(value, digits, ROUND_CEILING)", 'return _rounded(value, digits, "ROUND_HALF_EVEN")', ("tests/privacy/test_promised.py",)),
    Defect("a card does not say what was looked at", "dpsql/report/card.py", "    if entry.looked:\n", "    if False:\n", ("tests/report/test_promises.py",)),
    Defect("a charge forgets what was looked at", "dpsql/books/charging.py", "        looked=list(entry.looked) or None,\n", "", ("tests/report/test_promises.py",)),
    Defect("a script does not say what it looked at", "dpsql/api/proposing/looked_parts.py", '{**proposal.how, "looked": True}', "{**proposal.how}", ("tests/report/test_promises.py",)),
    Defect("looking is part of the key of a request", "dpsql/core/domain.py", "return replace(self, looked=False) if self.looked else self", "return self", ("tests/report/test_promises.py",)),
    # queries that mean what people wrote
    Defect("what people wrote is not compared", "dpsql/evaluation/wording.py", "        if is_same is False:\n", "        if False:\n", ("tests/language/test_written.py",)),
    Defect("words over results are not compared", "dpsql/release/query_answers.py", "    result.check_words(numbered)\n", "", ("tests/language/test_written.py",)),
    Defect("what people wrote may call anything", "dpsql/evaluation/sandbox.py", "    for words in dict.fromkeys(written):", "    for words in ():", ("tests/language/test_written.py",)),
    Defect("an average of no possible row is charged", "dpsql/evaluation/evaluate.py", "        if not all(piece.rows[number].any() for piece in pieces):", "        if False:", ("tests/release/test_query_kinds.py",)),
    Defect("a group that no row can be in has an average", "dpsql/release/answers_frame.py", "np.where(some, part, np.nan)", "part", ("tests/release/test_query_kinds.py",)),
    Defect("ends of an interval stay where a number is negative", "dpsql/language/arithmetic.py", "    return Errors(of.stderr, exp.Neg(this=_paren(of.high)), exp.Neg(this=_paren(of.low)))", "    return Errors(of.stderr, exp.Neg(this=_paren(of.low)), exp.Neg(this=_paren(of.high)))", ("tests/release/test_query_kinds.py",)),
    Defect("GROUPING is of the other sets", "dpsql/language/analysis.py", "(key not in chosen) << place", "(key in chosen) << place", ("tests/language/test_shapes.py",)),
    # integers that a mechanism hands over, and values that DuckDB calls equal
    Defect("a mechanism reads the parity of a count", "dpsql/privacy/given.py", "not least <= int(own.min()) <= int(own.max()) <= most)", "not np.abs(own).max() <= most)", ("tests/contract/test_given_integers.py",)),
    Defect("weights are cast to integers", "dpsql/privacy/given.py", "        own = np.array(array)\n", "        own = np.array(array).astype(np.int64)\n", ("tests/contract/test_given_integers.py",)),
    Defect("-0.0 is another value than 0.0", "dpsql/core/column_types/floats.py", "equal_text=_EQUAL_TEXT", "equal_text=TEXT", ("tests/engines/test_equal_values.py",)),
    Defect("intervals are compared by their texts", "dpsql/core/column_types/base.py", "    equal_text: str | None = None\n", "    equal_text: str | None = TEXT\n", ("tests/engines/test_equal_values.py",)),
    Defect("an expression is tried at one spelling", "dpsql/evaluation/bins.py", "range(1, len(attribute.of_type.respelled) + 1)", "range(0)", ("tests/engines/test_equal_values.py",)),
    Defect("a collation is ignored", "dpsql/owner/protect.py", "    if names_texts and column.collated:\n", "    if False:\n", ("tests/engines/test_equal_values.py",)),
    Defect("two equal keys of a public table are two", "dpsql/books/dimensions.py", "    keys = [first_equal(cursor, [row[key] for row in known], dimension.columns[key][1]) for key in dimension.keys]\n", "    keys = [[row[key] for row in known] for key in dimension.keys]\n", ("tests/engines/test_equal_values.py",)),
    # the service: one user ends nobody else's session
    Defect("what hangs is not ended", "dpsql/service/lookout.py", "        if analyst.is_stuck():", "        if False:", ("tests/service/test_workers.py",)),
    Defect("users share a process", "dpsql/service/workers.py", "            worker = self._of.get(user)\n", "            worker = next(iter(self._of.values()), None)\n", ("tests/service/test_workers.py",)),
    Defect("nobody is told why the process ended", "dpsql/service/relay.py", "            pair.say_goodbye(*pair.worker.reason)", "            pair.end()", ("tests/service/test_workers.py",)),
    Defect("parameters are not counted", "dpsql/service/pgwire/extended.py", '        self._session.holdings.keep(("portal", name), name, values)\n', "", ("tests/service/test_workers.py",)),
    Defect("sessions of a user are counted alone", "dpsql/service/pgwire/holdings.py", "                self._whole.note((id(self), key), count)", "                pass", ("tests/service/test_workers.py",)),
    Defect("settings have no number", "dpsql/service/pgwire/commands.py", "len(self.values) >= _MOST_SETTINGS", "False", ("tests/service/test_workers.py",)),
    Defect("a DECLARE is of a DECLARE", "dpsql/service/pgwire/extended.py", "            if Declared.of(declares.query) is not None:", "            if False:", ("tests/service/test_workers.py",)),
    Defect("processes have no number", "dpsql/service/workers.py", "        if len(of_users) < self._options.processes:", "        if True:", ("tests/service/test_workers.py",)),
    Defect("the heartbeat's user is a reader", "dpsql/service/keeper.py", " or (user == PULSE and not sees_nothing)", "", ("tests/service/test_workers.py",)),
    Defect("a silent front stays", "dpsql/service/supervisor.py", "            self._end_silent()\n", "", ("tests/service/test_workers.py",)),
    Defect("health is asked of the keeper alone", "dpsql/service/front.py", "return bool(self.hearts) and all(heart.is_well() for heart in self.hearts)", "return True", ("tests/service/test_workers.py",)),
    Defect("the audit log has no size", "dpsql/service/audit_log.py", "            if self._most and self._counted() + len(line) > self._most:", "            if False:", ("tests/service/test_workers.py",)),
    Defect("a full audit log stops readers", "dpsql/service/analyst.py", "            if checked.calls:\n                raise NotAudited(", "            if True:\n                raise NotAudited(", ("tests/service/test_workers.py",)),
    # what is public is listed
    Defect("what nobody claims is public", "dpsql/books/public_list.py", "        if not by_name and (name", "        if False and (name", ("tests/books/test_public_list.py",)),
    Defect("a public table is known by its name", "dpsql/books/public_list.py", " or entries.digests[name] != digest_of(books.cursor, table)", "", ("tests/books/test_public_list.py",)),
    Defect("a copy of protected rows is listed", "dpsql/api/watching.py", "        return Verdict.PROTECTED if is_protected(self.cursor, source) else Verdict.PUBLIC", "        return Verdict.PUBLIC if is_protected(self.cursor, source) else Verdict.PUBLIC", ("tests/books/test_public_list.py",)),
    Defect("nobody says that epsilons add up", "dpsql/owner/protect.py", "    if not others:\n", "    if others:\n", ("tests/udfs/test_same_people.py",)),
    # expressions that are tried in a process that may die alone, versions, lists
    Defect("a VARIANT may be cast to", "dpsql/language/value_types.py", "_T.JSON, _T.NULL,", "_T.JSON, _T.VARIANT, _T.NULL,", ("tests/evaluation/test_alone.py",)),
    Defect("the process of expressions sees the keys", "dpsql/runtime/children.py", "    names = {*_HANDED, *more}", "    names = {*os.environ}", ("tests/evaluation/test_alone.py",)),
    Defect("a dead process is used again", "dpsql/evaluation/workers.py", "            if worker.is_running() and len(self.idle) < _IDLE:", "            if len(self.idle) < _IDLE:", ("tests/evaluation/test_alone.py",)),
    Defect("a process that was forked uses its parent's", "dpsql/evaluation/workers.py", "    os.register_at_fork(after_in_child=_forget_all)", "    pass", ("tests/evaluation/test_alone.py",)),
    Defect("what another process sends is believed", "dpsql/evaluation/messages.py", "k.kind not in _KINDS or", "False or", ("tests/evaluation/test_alone.py",)),
    Defect("any DuckDB counts", "dpsql/engines/duckdb/settings.py", "    check_version()\n", "", ("tests/engines/test_versions.py",)),
    Defect("a view may make texts of any length", "dpsql/books/reads.py", "T.GIVEN | T.ROWS |", "T.GIVEN | T.WIDTH | T.ROWS |", ("tests/core/test_functions.py",)),
    # samples, and rows that have a budget already
    Defect("alike rows are numbered by where they are", "dpsql/engines/lake/drawing.py", "row_number() OVER (PARTITION BY {alike})", "row_number() OVER ()", ("tests/engines/test_samples.py",)),
    Defect("a sample has a public number of rows, if it was there first", "dpsql/owner/protect.py", "    check_sample(source, relation)\n", "", ("tests/engines/test_samples.py",)),
    Defect("a sample has a public number of rows, if it comes later", "dpsql/books/sources.py", "        if registration.share is not None:\n            raise", "        if False:\n            raise", ("tests/engines/test_samples.py",)),
    Defect("a sample with a public number of rows is counted", "dpsql/owner/protect.py", "    check_sample(source, account.neighbours)\n", "", ("tests/engines/test_samples.py",)),
    Defect("a path is a file", "dpsql/engines/lake/identity.py", 'f"path {os.path.realpath(file.path)}"', 'f"path {file.path}"', ("tests/engines/test_same_rows.py",)),
    Defect("a hard link is another file", "dpsql/engines/lake/identity.py", "*_node(file.path)]", "]", ("tests/engines/test_same_rows.py",)),
    Defect("a copy is another file", "dpsql/engines/lake/identity.py", 'return [*found, f"{_BYTES}{file.size} {file.footer}"]', "return found", ("tests/engines/test_same_rows.py",)),
    Defect("what a pin read before is free", "dpsql/books/sources.py", "    keep_past(books, key)\n", "", ("tests/engines/test_same_rows.py",)),
    Defect("files that a table wrote anew are free", "dpsql/books/same_rows.py", ", *held_and_near(holds, found.files)[1]}", "}", ("tests/engines/test_same_rows.py",)),
    Defect("one file is read twice", "dpsql/engines/lake/parquet.py", "        if has_file_twice(list(found)):\n", "        if False:\n", ("tests/engines/test_same_rows.py",)),
    Defect("the owner's word is not in the ledger", "dpsql/books/sources.py", "return self.found.public + said", "return self.found.public", ("tests/engines/test_same_rows.py",)),
    Defect("Postgres: a partition has a budget of its own", "dpsql/engines/postgres/engine.py", "            within=relation.within,\n", "", ("tests/engines/test_postgres_same_rows.py",)),
    Defect("Postgres: a whole has a budget beside its partition's", "dpsql/engines/postgres/catalog.py", "SELECT i.inhrelid FROM pg_inherits i JOIN below b ON i.inhparent = b.oid", "SELECT b.oid FROM below b", ("tests/engines/test_postgres_same_rows.py",)),
    Defect("Postgres: a name is a table", "dpsql/engines/postgres/engine.py", '    if relation.number != pinned.get("number") or not', "    if not", ("tests/engines/test_postgres_same_rows.py",)),
    Defect("Postgres: a new partition is counted unseen", "dpsql/engines/postgres/engine.py", ' or not {*relation.holds} <= {*pinned["holds"]}:', ":", ("tests/engines/test_postgres_same_rows.py",)),
    # values and options of PostgreSQL's protocol
    Defect("numerics are read in Python's precision", "dpsql/service/pgwire/numerics.py", "    number = Decimal(text.strip())  # exact", "    number = +Decimal(text.strip())  # exact", ("tests/service/test_values.py",)),
    Defect("-infinity is an early moment in binary", "dpsql/service/pgwire/encode.py", "np.where(below, bounds.min + shift, numbers)", "np.where(below, bounds.min + shift + 1, numbers)", ("tests/service/test_values.py",)),
    Defect("years before Christ are read as those after", "dpsql/service/pgwire/moments.py", "era[1].upper() == 'BC' else", "era[1].upper() == 'AD' else", ("tests/service/test_values.py",)),
    Defect("a failed state outlives ROLLBACK TO", "dpsql/service/pgwire/cursors.py", '        session.settings.transaction = "T"\n', '        pass\n', ("tests/service/test_savepoints.py",)),
    Defect("DISCARD ALL leaves cursors to the next client", "dpsql/service/pgwire/cursors.py", "        self._session.settings.values.clear()\n        self.close()\n", "        self._session.settings.values.clear()\n", ("tests/service/test_savepoints.py",)),
    # what a join says is read, and intervals of arithmetic hold
    Defect("a condition of public tables is forgotten", "dpsql/language/from_clause.py", "    if waiting:\n        instead", "    if False:\n        instead", ("tests/language/test_joins.py",)),
    Defect("USING of public tables is forgotten", "dpsql/language/join_order.py", '        if join.args.get("using"):\n            refuse(', '        if False:\n            refuse(', ("tests/language/test_joins.py",)),
    Defect("what a part of FROM says is left out", "dpsql/language/place.py", "        if value and name not in read:", "        if False:", ("tests/language/test_joins.py",)),
    Defect("names of a public table's columns are left out", "dpsql/language/joins.py", '.args["alias"].args.get("columns"):\n', '.args["alias"].args.get("column"):\n', ("tests/language/test_joins.py",)),
    Defect("* has the protected table's columns first", "dpsql/language/from_clause.py", "    if starred and query is not written:", "    if False:", ("tests/language/test_joins.py",)),
    Defect("* has each name once", "dpsql/language/from_clause.py", "    if scope.lacks:", "    if False:", ("tests/language/test_joins.py",)),
    Defect("a cast leaves the ends of an interval", "dpsql/language/arithmetic.py", "            made = tree.copy()\n", "            made = exp.Paren() if cast else tree.copy()\n", ("tests/release/test_query_kinds.py",)),
    Defect("a cast of an answer alone leaves the ends of its interval", "dpsql/evaluation/result.py", 'if suffix != "_stderr" and _is_cast_to_number(tree):', "if False:", ("tests/release/test_query_kinds.py",)),
    Defect("widths of what was rounded are added", "dpsql/language/arithmetic.py", "isinstance(tree, exp.Add | exp.Sub) and self._adds_rounded", "False and self._adds_rounded", ("tests/release/test_query_kinds.py",)),
    Defect("counts inside arithmetic stay negative", "dpsql/evaluation/result.py", "floor=True) if is_floored else node", "floor=is_floored)", ("tests/release/test_query_kinds.py",)),
    Defect("ends of a sum of several are cut at 0", "dpsql/evaluation/result.py", '("", "_low", "_high") if alone else ("",)', '("", "_low", "_high")', ("tests/release/test_query_kinds.py",)),
    Defect("nullif above a division is dropped", "dpsql/language/statistics.py", "    over, under = _side(tree.this),", "    over, under = _lower_side(exp.Div(expression=tree.this)),", ("tests/release/test_query_kinds.py",)),
    Defect("a card says that -3 rows were counted", "dpsql/report/card.py", "About {max(0.0, total):,.0f}", "About {total:,.0f}", ("tests/report/test_card.py",)),
    # cells by forecast
    Defect("init takes fine cells whatever is predicted", "dpsql/api/proposing/forecast.py", "if 2 * counts[fine] >= planner.pairs:", "if counts[fine] >= 0:", ("tests/api/test_init.py",)),
    Defect("a forecast is of other cells than the script's", "dpsql/api/proposing/forecast.py", "    planner.declare(level)\n    preferred", "    level = min(level + 1, 5)\n    preferred", ("tests/api/test_init.py",)),
    Defect("cells of ages are where nobody is", "dpsql/api/proposing/looked_numbers.py", "quantiles[-1] += step", "pass", ("tests/api/test_init.py",)),
    # what is free takes a part of the processes, and one limit of time
    Defect("one user's free calls take all processes", "dpsql/service/keeper.py", "_FREE_CALLS = 2\n", "_FREE_CALLS = 20\n", ("tests/service/test_shares.py",)),
    Defect("a share is of all users together", "dpsql/service/turns.py", "            self._of.setdefault(user, []).append(ticket)\n        try:\n", "            user = ticket.user = ''\n            self._of.setdefault(user, []).append(ticket)\n        try:\n", ("tests/service/test_shares.py",)),
    Defect("a statement is looked up twice", "dpsql/service/keeper.py", "        if describes:\n", "        if False:\n", ("tests/service/test_shares.py",)),
    Defect("a look-up is there for later statements too", "dpsql/service/keeper.py", "lookups.get(user, call) if describes else lookups.take(user, call)", "lookups.get(user, call)", ("tests/service/test_shares.py",)),
    Defect("each step of a look-up has the whole time", "dpsql/evaluation/sandbox.py", "    if getattr(_thread, \"used\", None) is not None:  # inside another\n", "    if True:\n", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("what took too long is tried again for its place", "dpsql/api/once.py", "Interrupted | TooLong", "Interrupted", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("a fork waits for a lock of a thread that is not there", "dpsql/runtime/progress.py", "    if unbreakable.locked():  # by a thread that is not there\n", "    if False:\n", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("a fork waits for the watcher of its parent", "dpsql/runtime/progress.py", "        unbreakable.release()\n    _watcher.renew()\n", "        unbreakable.release()\n", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("a fork uses its parent's database", "dpsql/evaluation/sandbox.py", "    _thread.kept = _thread.used = None\n", "    _thread.used = None\n", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("a length takes memory before its bytes come", "dpsql/evaluation/messages.py", "    data = bytearray()\n", "    data = bytearray(size)\n    data.clear()\n", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("a head holds values without end", "dpsql/evaluation/messages.py", "(b\",\", b\"[\", b\"{\")) > _MOST_VALUES:", "(b\",\", b\"[\", b\"{\")) < 0:", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("a column of moments ends the process", "dpsql/evaluation/messages.py", 'frozenset("biufmM")', 'frozenset("biuf")', ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("no process starts where the current directory was deleted", "dpsql/evaluation/workers.py", "cwd=None if _has_directory() else os.sep", "cwd=None", ("tests/evaluation/test_alone_anywhere.py",)),
    Defect("pipes are closed under a thread that reads", "dpsql/evaluation/workers.py", "        worker.kill()  # a thread", "        worker.close()  # a thread", ("tests/evaluation/test_alone_anywhere.py",)),
    # queries of tables in any order, of groups without rows, and of answers together
    Defect("what ON says beside the key is left out", "dpsql/language/joins.py", "    if conditions:\n        names", "    if False:\n        names", ("tests/language/test_joins.py",)),
    Defect("what ON of a LEFT JOIN says leaves rows out", "dpsql/language/joins.py", '    if side == "LEFT":\n        return found\n', "", ("tests/language/test_joins.py",)),
    Defect("NATURAL joins by one column", "dpsql/language/joins.py", "for name in shared])", "for name in shared[:1]])", ("tests/language/test_joins.py",)),
    Defect("public rows that nobody meets are no groups", "dpsql/evaluation/evaluate.py", "    if query.scope.preserved is not None:\n", "    if False:\n", ("tests/language/test_preserved.py",)),
    Defect("public rows that WHERE leaves out are groups", "dpsql/evaluation/unmatched.py", ".where(*conditions).distinct()", ".distinct()", ("tests/language/test_preserved.py",)),
    Defect("public rows that nobody meets are counted", "dpsql/language/preserved.py", "            if not _takes_no_nulls(side):\n", "            if False:\n", ("tests/language/test_preserved.py",)),
    Defect("a condition on private rows keeps all groups", "dpsql/language/preserved.py", "        if not tree.meta.get(MATCHES) and over", "        if False and over", ("tests/language/test_preserved.py",)),
    Defect("OR rejects NULL where one side does", "dpsql/language/preserved.py", "_rejects(tree.this) and _rejects(tree.expression)", "_rejects(tree.this) or _rejects(tree.expression)", ("tests/language/test_preserved.py",)),
    Defect("a window of answers has the interval of one", "dpsql/language/arithmetic.py", "    if any(map(is_window, tree.find_all(exp.Column))):", "    if False:", ("tests/language/test_windows.py",)),
    Defect("windows see the groups that HAVING leaves out", "dpsql/evaluation/result.py", "chosen = select if self.query.having is None else", "chosen = select if True else", ("tests/language/test_windows.py",)),
    Defect("QUALIFY is left out", "dpsql/evaluation/result.py", "query.qualify if query.windows else query.having", "None if query.windows else query.having", ("tests/language/test_windows.py",)),
    Defect("percents are planned as shares", "dpsql/release/preview.py", "    times = abs(factor)\n", "    times = 1.0\n", ("tests/release/test_planned_answers.py",)),
    Defect("who declares a little more has not looked", "dpsql/owner/declaration.py", "known.looked if self.looked is None", "known.looked and known.of_release == same if self.looked is None", ("tests/report/test_promises.py",)),
    Defect("hours of the night are a day", "dpsql/evaluation/constancy.py", '{"H": 3600,', '{"H": 86_400,', ("tests/language/test_windows.py",)),
    # statements that change public tables
    Defect("a table that gets protected rows stays on the list", "dpsql/books/public_list.py", "    if surely or name not in entries.words:\n        seen.doubt", "    if False:\n        seen.doubt", ("tests/books/test_public_changes.py",)),
    Defect("what public rows changed is not listed anew", "dpsql/api/watching.py", "                self.changes.changed[identity] = table\n", "                pass\n", ("tests/books/test_public_changes.py",)),
    Defect("rows that came unseen are listed by the next statement", "dpsql/books/marking.py", "            seen.strayed.add(table.identity)", "            pass", ("tests/books/test_public_changes.py",)),
    Defect("a transaction's tables are listed before its end", "dpsql/api/watching.py", "        if transaction != int(self.ask(_HOME)[0][2]):", "        if True:", ("tests/books/test_public_changes.py",)),
    Defect("a name of WITH hides a relation of Python", "dpsql/api/watching.py", "Verdict.DOUBTFUL if any(map(_reads_tables, values))", "Verdict.PUBLIC if any(map(_reads_tables, values))", ("tests/books/test_public_changes.py",)),
    Defect("a protected file is copied into a public table", "dpsql/api/watching.py", "            if self._reads_files() and holds_files(", "            if False and holds_files(", ("tests/books/test_public_changes.py",)),
    Defect("the word about a name outlives protected rows", "dpsql/books/public_list.py", "    if surely or name not in entries.words:", "    if name not in entries.words:", ("tests/books/test_public_changes.py",)),
    Defect("a prepared statement is not judged when it runs", "dpsql/api/watching.py", "        text = changes.prepared.get(wording.second, text)", "        text = str(text)", ("tests/books/test_public_changes.py",)),
    Defect("sqlglot logs what people wrote", "dpsql/runtime/quiet.py", "            return False", "            return True", ("tests/books/test_public_changes.py",)),
    # what a review of these found
    Defect("the word about a name outlives a kill", "dpsql/api/watching.py", "        self._end_words()\n", "", ("tests/books/test_public_changes.py",)),
    Defect("ON and WHERE are one question", "dpsql/release/query_plan.py", "sorted(map(sql_of, query.matches))]", "[]]", ("tests/language/test_preserved.py",)),
    Defect("a statement ends with the comment behind it", "dpsql/api/cli_sql.py", "        statement = data[: places[-1]].decode()\n", "        pass\n", ("tests/api/test_cli_sql.py",)),
    # Cells that noise alone fills
    Defect("a joint holds the cells that noise alone fills", "dpsql/fitting/relaxed/empty_cells.py", "return possible if surely_few else", "return", ("tests/fitting/relaxed/test_empty_cells.py",)),
    Defect("cells of few rows each are left out however many there are", "dpsql/fitting/relaxed/empty_cells.py", "return possible if surely_few else np.ones_like(possible)", "return possible", ("tests/fitting/relaxed/test_empty_cells.py",)),
    # Joints that constraints tie
    Defect("joints that a constraint ties are drawn as if it were not there", "dpsql/fitting/relaxed/groups.py", "            held &= cells[tuple(codes[rows, self.places.index(place)] for place in places)]\n", "            pass\n", ("tests/fitting/relaxed/test_groups.py",)),
    Defect("a ridge gives way to any constraint", "dpsql/fitting/relaxed/joints.py", "return loose and len(set(part.clique) & set(ridge)) == 1", "return False", ("tests/fitting/relaxed/test_groups.py",)),
    # Correlations in the report
    Defect("the interval of a correlation forgets the noise of the pair", "dpsql/release/correlation.py", "reach = REACH * (pair.stddev * _length(a * b - value) + ", "reach = REACH * (", ("tests/report/test_correlation.py",)),
    Defect("columns of one value are judged", "dpsql/release/judgement.py", "if measured is None or not constant.isdisjoint(clique):", "if measured is None:", ("tests/report/test_correlation.py",)),
    Defect("the verdict keeps silent about cells that are far off", "dpsql/release/worst_cells.py", "        self._far += int((far > _FAR).sum())\n", "        pass\n", ("tests/report/test_correlation.py",)),
    # one catalogue of DuckDB's functions
    Defect("a view may read the members of an ENUM type", "dpsql/books/reads.py", "T.GIVEN | T.ROWS |", "T.GIVEN | T.MEMBERS | T.ROWS |", ("tests/core/test_functions.py",)),
    Defect("a view may try which texts are members of an ENUM type", "dpsql/books/reads.py", 'expression == "BOUND_CAST" or name == "__cast"', "False", ("tests/books/test_public_functions.py",)),
    Defect("expressions may call what reads the clock", "dpsql/evaluation/sandbox.py", "T.ZONE | T.MEMBERS | T.UNTRIED_IN_VIEWS", "T.ZONE | T.CLOCK | T.MEMBERS | T.UNTRIED_IN_VIEWS", ("tests/core/test_functions.py",)),
    Defect("bitstring_agg has no trait that says its length", "dpsql/core/functions.py", "T.AGGREGATE | T.LENGTH: ", "T.AGGREGATE | T.MEMBERS: ", ("tests/core/test_functions.py",)),
    Defect("readers may call what takes the square of a length", "dpsql/service/allowed.py", "T.GIVEN | T.ROWS |", "T.GIVEN | T.SQUARE | T.ROWS |", ("tests/core/test_functions.py",)),
    # courses that no charge pays for
    Defect("a course of more than 1 is charged", "dpsql/mechanisms/base.py", "        course.check(name_of(self))\n", "", ("tests/mechanisms/test_course.py",)),
    # what is said around a query of groups
    Defect("what is made of answers has the interval of one", "dpsql/language/around.py", "    rows = not changed and", "    rows =", ("tests/language/test_around.py",)),
    Defect("a new name of a column of answers is not seen", "dpsql/language/around.py", '    if alias is not None and alias.args.get("columns"):\n        return False\n', "", ("tests/language/test_around.py",)),
    Defect("what is around groups calls any function", "dpsql/evaluation/sandbox.py", "    _refuse_foreign(foreign_word(called, functions_around() | _WORDS_AROUND))\n", "", ("tests/language/test_around.py",)),
    Defect("what is around groups fails after the charge", "dpsql/release/query_answers.py", "        result.rows(numbered, non_negative=False)\n", "        pass\n", ("tests/language/test_around.py",)),
    # columns without a domain, and public tables in conditions
    Defect("NULL is asked of a column whose values are asked too", "dpsql/language/query.py", " - {c.name for c in columns if not _asks_for_null(c)}", "", ("tests/language/test_presence.py",)),
    Defect("an excluded column is counted", "dpsql/release/lookup.py", "        if name not in known and automatic", "        if automatic", ("tests/language/test_presence.py",)),
    Defect("the rows of a public table in a condition are all of it", "dpsql/language/members.py", "    conditions = [enclosed(tree) for tree in rows.filters]\n", "    conditions: list[exp.Expr] = []\n", ("tests/language/test_members.py",)),
    Defect("what a public table in a condition holds is in no key", "dpsql/release/query_plan.py", '"joined": [list(named) for named in facts.joined],', '"joined": [list(named)[:1] for named in facts.joined],', ("tests/language/test_members.py",)),
    Defect("a query of a public table calls any function", "dpsql/evaluation/own_parts.py", "(tree, *keys, *asked)", "(tree, *keys)", ("tests/language/test_members.py",)),
    # rows to fetch, and texts with a PIVOT on DuckDB 1.5
    Defect("rows that are not fetched yet are lost", "dpsql/api/connection.py", "                return self._place[0]\n", "                pass\n", ("tests/api/test_connection.py",)),
    Defect("names are looked up where the connection stood before", "dpsql/api/connection.py", "            frame, self._place = caller(), None\n", "            frame = caller()\n", ("tests/api/test_connection.py",)),
    # what the service bounds for each user
    Defect("the process of a user has no bound of memory", "dpsql/service/worker.py", "    limit_memory(most_of_user(options))\n", "", ("tests/service/test_memory.py",)),
    Defect("allocators keep what they were given back", "dpsql/service/workers.py", ", **ALLOCATORS}", "}", ("tests/service/test_memory.py",)),
    Defect("a message of any length is read before a login", "dpsql/service/quack_messages.py", "    if int(lengths[0]) > LONGEST:", "    if False:", ("tests/service/test_quack_messages.py",)),
    Defect("who comes last gets the next process", "dpsql/evaluation/workers.py", "next(iter(self.waiting), ticket) is not ticket", "next(reversed([*self.waiting]), ticket) is not ticket", ("tests/evaluation/test_alone.py",)),
    Defect("free calls of a user are served in any order", "dpsql/service/turns.py", "self._of[ticket.user][: self.most]", "self._of[ticket.user][-self.most :]", ("tests/service/test_shares.py",)),
    Defect("look-ups of one user push out another's", "dpsql/service/turns.py", "if place[0] == user]", "]", ("tests/service/test_shares.py",)),
    Defect("what was described is as it was then", "dpsql/service/keeper.py", "bound is not None and bound.is_of_now()", "bound is not None", ("tests/service/test_shares.py",)),
    # inside bins
    Defect("places of dependent columns are drawn apart", "dpsql/release/tied_bins.py", "np.where(chosen, along, found[place])", "found[place]", ("tests/release/test_tied_bins.py",)),
    Defect("the last bin is even", "dpsql/release/inside_bins.py", "                found[end] = sign * _rate(edge)\n", "                found[end] = 0.0\n", ("tests/release/test_inside_bins.py",)),
    Defect("what stands between groups and the text around them is dropped", "dpsql/language/analysis.py", "        if query.around is not None:\n", "        if False:\n", ("tests/language/test_around.py",)),
    # times that are stored as numbers and texts, and what init makes of files
    Defect("a day of the year may be the 366th of any year", "dpsql/core/readings.py", "AND (x % 1000 < 366 OR ", "AND (TRUE OR ", ("tests/engines/test_readings.py",)),
    Defect("edges that a form cannot write are taken", "dpsql/engines/duckdb/declare_readings.py", "if again is None or (again != same and not is_last):", "if again is None:", ("tests/engines/test_readings.py",)),
    Defect("what stands for NULL is compared as it is stored", "dpsql/engines/duckdb/declare_nulls.py", "    if not attribute.reading:\n", "    if True:\n", ("tests/engines/test_readings.py",)),
    Defect("a time at the end of a day is its beginning", "dpsql/core/column_types/time.py", "CASE WHEN x >= 86400000000 THEN", "CASE WHEN x >= 99400000000 THEN", ("tests/engines/test_readings.py",)),
    Defect("the types of a CSV file are those of its first rows", "dpsql/api/proposing/csv_types.py", '"sample_size = -1"', '"sample_size = 20480"', ("tests/api/test_init_forms.py",)),
    Defect("what only some texts of a column are is taken for all", "dpsql/api/proposing/looked_texts.py", "        return None if lost else typed\n", "        return typed\n", ("tests/api/test_init_forms.py",)),
    Defect("preferred periods of dates are not marked as looked", "dpsql/api/proposing/looked_parts.py", "finer = (marked(each, unseen) for each in proposal.finer)", "finer = iter(proposal.finer)", ("tests/api/test_init_forms.py",)),
    # who fills threads, memory or silence of a door
    Defect("a full room keeps who is silent", "dpsql/service/room.py", "                if left > 0:\n", "                if left > 0 or True:\n", ("tests/service/test_room.py",)),
    Defect("a guest has no time", "dpsql/service/room.py", "if now > until]", "if False]", ("tests/service/test_room.py",)),
    Defect("a message that fails is not answered", "dpsql/service/quack.py", "            self._say(_TROUBLE)\n", "            pass\n", ("tests/service/test_room.py",)),
    Defect("a name of any length is asked for", "dpsql/service/quack.py", " if len(user) <= LONGEST_NAME else None", "", ("tests/service/test_room.py",)),
    Defect("a server that answers nothing is waited for", "dpsql/service/exchange.py", "if now - self._heard > self._silence:", "if False:", ("tests/service/test_quack_silence.py",)),
    Defect("a server that works is ended", "dpsql/service/exchange.py", " or self.number in self.worker.at_work:", ":", ("tests/service/test_quack_silence.py",)),
    Defect("a client hears of its session before the door does", "dpsql/service/exchange.py", "        self._said += data\n", "        self._said += data\n        super()._take(data)\n", ("tests/service/test_quack_silence.py",)),
    Defect("a beat may be anything", "dpsql/service/workers.py", "        if not isinstance(at_work, list) or len(at_work) > _MOST_AT_WORK:\n", "        if False:\n", ("tests/service/test_quack_silence.py",)),
    Defect("a process stays in the network", "dpsql/runtime/children.py", "    if libc.unshare(_NEW_NETWORK):", "    if libc.unshare(0):", ("tests/service/test_quack_silence.py",)),
    Defect("a process in its network may do all there", "dpsql/runtime/children.py", "        libc.capset(_CAPABILITIES, bytes(24))\n", "        pass\n", ("tests/service/test_quack_silence.py",)),
    Defect("what stands between groups and the text around them is dropped", "dpsql/language/parse.py", "        if query.around is None:\n", "        if True:\n", ("tests/language/test_around.py",)),
)  # fmt: skip
