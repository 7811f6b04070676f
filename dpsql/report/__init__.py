"""What people are shown of a release: a page, a card and charts, from released values only.

`facts` collects what the books say and what `dpsql.release.judgement` finds. Everything else here is a function of it.
Nothing here reads a protected table: figures with the truth in them are handed in by the owner's door.
"""
