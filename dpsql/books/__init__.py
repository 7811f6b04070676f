"""The books of a database: accounts, charges, answers, releases, in a chain with a head outside; what is public.

A folder a room, and one job a file; their functions take a `Books`. Each room imports those below it only.

    accounts/  charging      pay for a release;  changes: raise, reset, …
               verification  whether all fits together;  acceptance: what the owner decides where it does not

    reading/   reads         what a query reads;  lineage: what a name in FROM means
               references    public values;  codebook, dimensions: public tables that are joined;  priors: public rows

    people/    people        users and their tokens' verifiers (credentials);  limits: what they may cause
               visible_names    what a user sees;  published_tables: what the owner shows

    releases/  releases      find them;  journal: store what was measured;  questions, answers: as texts and rows
               reuse         measurements of earlier releases
               publication   write, read back, publish;  schema: linked tables;  stopped: go on, or fail
               empty_releases   published without rows, once

    tables/    protection    a table gets an account, or loses an unused one;  links: other tables of an account
               facts         declared domains and constraints;  computed: columns;  owner_facts: read off the rows
               write_table_ids  mark tables, and find them under other names
               public        which tables are public;  public_list: how that is known
               sources       rows that are elsewhere;  same_rows: whether they have a budget already;  table_keys

    ledger/    store         `Books`: statements and transactions, on the schema `dpsql` of one database
               ledger        look at the chain, record an event, bring the head up to it
               chain         events that no one changes unnoticed;  keys: who may write them;  heads: the file outside
               accounts, members, periods   as rows, and as the ledger states them;  unchanged: only releases went on
               origin        neither lost, nor copied;  table_ids: the marks by which tables are known
               migration     tables of older versions;  statements: the SQL of `sql/`
"""
