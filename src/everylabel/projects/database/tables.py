"""The tables of a log: what happened, the source as it was last time, and a seal over both.

Each event holds a digest over itself and the one before (`chain.py`). A project's head holds that of the last
event and one of its items, and is written with them: nothing is changed, lost or cut off without its showing.
"""

import sqlalchemy as sa

FORMAT = 4
BEFORE = (1, 2, 3)  # names and digests one by one; the first two without seals, in 1 no ids of the source
tables = sa.MetaData()
events = sa.Table(
    "everylabel_events",
    tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("block", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("key", sa.Text),
    sa.Column("chain", sa.Text),  # over all of these but the project, and the chain of the event before
    sa.UniqueConstraint("project", "key"),
)
items = sa.Table(
    "everylabel_items",
    tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("items", sa.Text, nullable=False),  # the source as it was last time
)
heads = sa.Table(
    "everylabel_heads",
    tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),  # of the last event
    sa.Column("chain", sa.Text, nullable=False),
    sa.Column("items", sa.Text, nullable=False),  # digest of the items' text; "" if there are none
)
