"""The books of a database: accounts, charges, answers, releases, in a chain with a head outside; what is public.

One job a file; their functions take a `Books`.

    store          `Books`: statements and transactions, on the schema `dpsql` of one database
    migration      tables of older versions;  statements: the SQL of `sql/`
    origin         neither lost nor copied

    chain          events that no one changes unnoticed;  keys: who may write them;  heads: what a file outside knows
    ledger         look at the chain, record an event, bring the head up to it
    verification   whether all fits together;  acceptance: what the owner decides where it does not

    protection     a table gets an account, or loses an unused one;  accounts: read them;  changes: raise, reset, …
    facts          declared domains and constraints
    marks          how a table is known under another name;  marking: the books' side of it

    charging       pay for a release;  releases: find it;  journal: store what was measured;  answers: as rows
    reuse          measurements of earlier releases
    publication    write, read back, publish;  stopped: go on, or fail;  hollow: published without rows, once

    public         which tables are public;  reads: what a query reads;  lineage: what a name in FROM means
    references     public values;  dimensions: public tables that are joined;  priors: public rows
"""
