"""The users that the books know, and one more table for all of them: with every type that there is."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.service import arrow, users


@dataclass
class Typed:
    database: object
    query: str
    columns: list
    name: str = "shown"
    comment: str = "Every type: it's made, not measured"
    version: str = "1"
    audience: str = "all"
    schema: str = ""
    keys: tuple = ()
    required: tuple = ()

    def read(self):
        cursor = self.database.connection.cursor()
        cursor.execute(arrow.sent(self.query, self.columns))
        return arrow.reader(cursor)


class TypedUsers(users.Users):
    def published(self, user):
        with self._database.instance.cursor() as cursor:
            query = f"SELECT * FROM {self._database.instance.home}.shown"
            typed = Typed(self._database, query, arrow.described(cursor, query))
        return [*super().published(user), typed]


def open_typed(path):
    return TypedUsers(path)
