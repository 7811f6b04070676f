-- The books of a database: who may spend what, what was spent, and what was released for it.
-- They live in the schema dpsql of the database that holds the protected tables; dpsql creates them at the first
-- dp_protect. Privacy loss is kept as a whole number of units of 2^-96 zCDP, exactly.

CREATE SCHEMA IF NOT EXISTS dpsql;

-- One row per protected table. rho_spent and gdp_spent only grow until the owner resets the account, by the conditional update in charge.sql, as long as
-- the one that the first charge chose stays within its budget, or all releases are pure and their epsilons do.
CREATE TABLE IF NOT EXISTS dpsql.account (
  source      VARCHAR PRIMARY KEY, -- the table, after its schema unless that is main
  epsilon     DOUBLE NOT NULL,     -- the promise of all releases together, at delta
  delta       DOUBLE NOT NULL,
  neighbours  VARCHAR NOT NULL,    -- add_remove or replace_one
  unit_column VARCHAR,             -- the column whose values are the privacy units; none where each row is one
  unit_type   VARCHAR,             -- its type then
  unit_rows   BIGINT,              -- how many rows of a unit count at most
  unit_secret VARCHAR NOT NULL,    -- what the choice of those rows is drawn from
  delta_reserved DOUBLE NOT NULL,  -- of delta, kept for discoveries; the sums below keep the promise at the rest
  delta_spent DOUBLE NOT NULL,     -- of that, charged so far
  rho_budget  HUGEINT NOT NULL,    -- the zCDP that implies the promise, rounded down
  rho_spent   HUGEINT NOT NULL,    -- charged so far, rounded up
  gdp_budget  HUGEINT NOT NULL,    -- the g of Gaussian DP that implies the promise, rounded down
  gdp_spent   HUGEINT NOT NULL,    -- charged so far, rounded up
  currency    VARCHAR,             -- zcdp or gdp: which sum keeps the promise; none before the first charge; pure where delta is 0
  pure_spent  HUGEINT,             -- the sum of pure epsilon, in units of 2^-96; none once a release had a delta
  releases    BIGINT NOT NULL,
  since       BIGINT NOT NULL,     -- the number of the event that opened or reset the account
  retired     BOOLEAN NOT NULL     -- whether nothing more may be charged
);

-- Tables of an account beside the one that it was opened for; the ledger says the same (see dpsql/books/tables/links.py).
CREATE TABLE IF NOT EXISTS dpsql.member (
  source VARCHAR PRIMARY KEY, -- the table, after its schema unless that is main
  number BIGINT NOT NULL,     -- its place among them, a parent before its children
  stated VARCHAR NOT NULL     -- JSON: whose account, and the keys that lead to a unit, or the unit's column
);

-- Tables of which each period has an account of its own, named table."2026-03"; the ledger says the same (see
-- dpsql/books/ledger/periods.py).
CREATE TABLE IF NOT EXISTS dpsql.period (
  source VARCHAR PRIMARY KEY, -- the table, after its schema unless that is main
  stated VARCHAR NOT NULL     -- JSON: every day, week, …, and the column that says it with its type
);

-- How a table of an account is known under whatever name it is now (see dpsql/books/ledger/table_ids.py).
CREATE TABLE IF NOT EXISTS dpsql.known_table (
  name  VARCHAR NOT NULL, -- the account that it belongs to
  token VARCHAR           -- of the mark in its comment; before version 5 none for the name of a public table
);

-- Which tables are public (see dpsql/books/tables/public_list.py).
CREATE TABLE IF NOT EXISTS dpsql.public_table (
  name   VARCHAR PRIMARY KEY, -- in lower case, after its schema unless that is main
  digest VARCHAR              -- of its rows; none where the owner said that no protected row comes under that name
);

-- The public domain of each column, as its owner declared it (a JSON object; see dpsql/domain.py).
CREATE TABLE IF NOT EXISTS dpsql.domain (
  source VARCHAR NOT NULL,
  name   VARCHAR NOT NULL,
  spec   VARCHAR NOT NULL,
  PRIMARY KEY (source, name)
);

-- Where the rows of a table are that dp_source registered; the table itself is an empty stub. No credential is here.
CREATE TABLE IF NOT EXISTS dpsql.source (
  source   VARCHAR PRIMARY KEY,
  engine   VARCHAR NOT NULL,
  address  VARCHAR NOT NULL,   -- what tells the relation from all others of the engine
  said     VARCHAR NOT NULL,   -- JSON: what the owner said of it
  pin      VARCHAR NOT NULL,   -- JSON: which rows of it count, a snapshot
  identity VARCHAR[] NOT NULL, -- the columns that tell rows apart, where the engine wants some
  sample   VARCHAR NOT NULL,   -- JSON: the sample that was drawn of it; empty without one
  secret   VARCHAR NOT NULL,   -- what a sample is drawn from
  public   VARCHAR NOT NULL    -- the pin in words, as the ledger has it
);

-- The files of the pinned snapshot of a source.
CREATE TABLE IF NOT EXISTS dpsql.source_file (
  source    VARCHAR NOT NULL,
  number    BIGINT NOT NULL,
  path      VARCHAR NOT NULL,
  size      BIGINT NOT NULL,
  footer    VARCHAR NOT NULL, -- SHA-256 of it; in a bucket after the time of the file's last change
  constants VARCHAR NOT NULL, -- JSON: columns that are the same in all its rows and not in the file, as texts
  PRIMARY KEY (source, number)
);

-- What told the rows of a source from others at pins before, which were counted: no other source may have them.
CREATE TABLE IF NOT EXISTS dpsql.source_past (
  source   VARCHAR NOT NULL,
  identity VARCHAR NOT NULL, -- an address, a real path, the size and digest of a footer, a table of a server
  PRIMARY KEY (source, identity)
);

-- Public facts about each row of a table, as its owner stated them; every synthetic row satisfies them.
CREATE TABLE IF NOT EXISTS dpsql.constraint (
  source    VARCHAR NOT NULL,
  predicate VARCHAR NOT NULL,   -- SQL over the columns of one row
  columns   VARCHAR[] NOT NULL, -- those that it names
  PRIMARY KEY (source, predicate)
);

-- Of those facts the ones that their owner read off the rows, which no guarantee covers.
CREATE TABLE IF NOT EXISTS dpsql.looked_fact (
  source    VARCHAR NOT NULL,
  predicate VARCHAR NOT NULL,
  PRIMARY KEY (source, predicate)
);

-- The ledger: what happened to the accounts, in order, as a hash chain (see dpsql/database/chain.py). Append-only.
CREATE TABLE IF NOT EXISTS dpsql.event (
  number  BIGINT PRIMARY KEY,
  content VARCHAR NOT NULL, -- JSON: all that there is to the event, and the account after it
  hash    VARCHAR NOT NULL, -- SHA-256 of the hash before and the content
  basis   VARCHAR           -- instead of the hash before, where the owner accepted what was there: a digest of it all
);

-- Which event charged a request, since the ledger was last accepted: so that one whose record is lost is not charged
-- again. The ledger says the same; this is to find it by, however long that is.
CREATE TABLE IF NOT EXISTS dpsql.request (
  key    VARCHAR PRIMARY KEY, -- SHA-256 of the request
  number BIGINT NOT NULL
);

-- One row: the version of these tables. Books without it are of version 1, and get what they lack when they are opened
-- for writing.
CREATE TABLE IF NOT EXISTS dpsql.books (
  version INTEGER PRIMARY KEY
);

-- One row per release. state: reserved (paid; measured, once there are answers), then published or failed.
CREATE TABLE IF NOT EXISTS dpsql.release (
  key        VARCHAR PRIMARY KEY, -- SHA-256 of the request
  number     BIGINT NOT NULL,     -- of its event; its rows are in dpsql.release_<number>
  source     VARCHAR NOT NULL,
  request    VARCHAR NOT NULL,    -- JSON
  domain     VARCHAR NOT NULL,    -- JSON, as it was when the release was charged
  mechanism  VARCHAR NOT NULL,
  rho        HUGEINT NOT NULL,    -- what was charged
  gdp        HUGEINT NOT NULL,
  neighbours VARCHAR NOT NULL,
  unit_rows  BIGINT,
  guarantee  VARCHAR NOT NULL,    -- in words: loss, neighbours
  state      VARCHAR NOT NULL,
  rows       BIGINT,              -- of the synthetic table
  told       BIGINT,              -- the number of the event of its publication
  report     VARCHAR              -- JSON: what the fit says of itself, from released values only
);

-- The curator's answers, in the order given; written before a mechanism sees them.
CREATE TABLE IF NOT EXISTS dpsql.answer (
  release   VARCHAR NOT NULL,
  number    BIGINT NOT NULL,
  question  VARCHAR NOT NULL,   -- JSON: what was asked, with its share of rho
  kind      VARCHAR NOT NULL,   -- marginal, cells, query, selection or values
  columns   VARCHAR[] NOT NULL, -- the clique
  shape     BIGINT[] NOT NULL,  -- sizes of the columns' domains
  noise     VARCHAR,            -- gaussian, laplace or none
  variance  VARCHAR,            -- an exact rational
  stddev    DOUBLE,             -- its root
  rho       VARCHAR NOT NULL,   -- an exact rational
  selection VARCHAR,            -- JSON: the cells that were selected, or the values that were discovered
  digest    VARCHAR NOT NULL,   -- SHA-256 of question and answer
  PRIMARY KEY (release, number)
);

-- The values of the measurements: noisy counts of cells (row-major index in the clique).
CREATE TABLE IF NOT EXISTS dpsql.cell (
  release VARCHAR NOT NULL,
  answer  BIGINT NOT NULL,
  cell    BIGINT NOT NULL,
  value   BIGINT NOT NULL
);

-- Who else may ask: users of the service, by their names. Their tokens are not here, only what tells a right one.
CREATE TABLE IF NOT EXISTS dpsql.person (
  name       VARCHAR PRIMARY KEY,
  role       VARCHAR NOT NULL, -- reader or analyst
  state      VARCHAR NOT NULL, -- active or revoked
  salt       VARCHAR NOT NULL, -- of SCRAM-SHA-256, all in hexadecimal digits
  iterations BIGINT NOT NULL,
  stored_key VARCHAR NOT NULL,
  server_key VARCHAR NOT NULL
);

-- What a user may cause of a table's loss, in a period. Without a row a user may not ask about the table.
CREATE TABLE IF NOT EXISTS dpsql.allowance (
  person  VARCHAR NOT NULL,
  source  VARCHAR NOT NULL,
  period  VARCHAR NOT NULL, -- forever, month or day, in UTC
  epsilon DOUBLE NOT NULL,
  delta   DOUBLE,           -- none for that of the table
  PRIMARY KEY (person, source, period)
);

-- Which user caused a charge, and what it cost; charges of the owner's have no row.
CREATE TABLE IF NOT EXISTS dpsql.payer (
  number BIGINT PRIMARY KEY, -- of the event that charged it
  key    VARCHAR NOT NULL,   -- of the request
  person VARCHAR NOT NULL,
  source VARCHAR NOT NULL,
  charged_at TIMESTAMP NOT NULL,
  rho    HUGEINT NOT NULL,
  gdp    HUGEINT NOT NULL,
  pure   HUGEINT              -- none where it has a delta
);

-- Releases that their owner shows to users, under names.
CREATE TABLE IF NOT EXISTS dpsql.shown (
  name     VARCHAR PRIMARY KEY,
  release  BIGINT NOT NULL,    -- its number
  audience VARCHAR NOT NULL,   -- analysts, everyone, or users
  people   VARCHAR[] NOT NULL, -- those users
  comment  VARCHAR NOT NULL
);

-- What else the owner decided, by name.
CREATE TABLE IF NOT EXISTS dpsql.decision (
  name  VARCHAR PRIMARY KEY,
  value VARCHAR NOT NULL
);
