"""One small shop in a SQLite file and in PostgreSQL, and what shows that nobody touched it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from hermes.store.driver import connect as open_sqlite
from tests.postgres import connect, database

ROWS = ((1, "北京", "paid"), (2, "上海", "returned"), (3, 'O\'Hare "x" $1', "paid"))


class SQLiteShop:
    """A file with orders."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.url = f"sqlite:///{self.path}"
        connection = open_sqlite(str(self.path))
        connection.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, city TEXT, state TEXT,"
            " total REAL DEFAULT 1.5, photo BLOB)"
        )
        sql = "INSERT INTO orders (id, city, state) VALUES (?, ?, ?)"
        connection.cursor().executemany(sql, ROWS)
        connection.execute("CREATE VIEW paid AS SELECT * FROM orders WHERE state = 'paid'")
        connection.close()

    def mark(self) -> str:
        """Changes with anything in the file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def run(self, sql: str) -> None:
        connection = open_sqlite(str(self.path))
        connection.execute(sql)
        connection.close()

    def count(self) -> int:
        connection = open_sqlite(str(self.path))
        [row] = connection.execute("SELECT count(*) FROM orders").fetchall()
        connection.close()
        return int(str(row[0]))


class PostgresShop:
    """A database with orders, for a role without power."""

    def __init__(self, url: str, role: str) -> None:
        self._admin = url
        self.mighty = url
        self.url = url.replace("//postgres@", f"//{role}@")

    def mark(self) -> str:
        """Changes with what is in the database, its sequences, settings and tables."""
        with psycopg.connect(self._admin, autocommit=True) as admin:
            found = [
                admin.execute(sql).fetchall()
                for sql in (
                    b"SELECT * FROM orders ORDER BY id",
                    b"SELECT last_value, is_called FROM orders_id_seq",
                    b"SELECT count(*) FROM pg_class WHERE relpersistence = 'p'",
                    b"SELECT count(*) FROM pg_largeobject_metadata",
                    b"SELECT relacl::text FROM pg_class WHERE relname = 'orders'",
                    b"SELECT setting FROM pg_settings WHERE name = 'work_mem'",
                )
            ]
        return repr(found)

    def run(self, sql: str) -> None:
        with psycopg.connect(self._admin, autocommit=True) as admin:
            admin.execute(sql.encode())

    def count(self) -> int:
        with psycopg.connect(self._admin, autocommit=True) as admin:
            row = admin.execute(b"SELECT count(*) FROM orders").fetchone()
        assert row is not None
        return int(row[0])


Shop = SQLiteShop | PostgresShop


@contextmanager
def postgres_shop() -> Generator[PostgresShop]:
    """A shop in a database of its own; skips the test where no server is."""
    role = f"hermes_reader_{uuid.uuid4().hex[:12]}"
    with database() as url:
        shop = PostgresShop(url, role)
        shop.run(f"CREATE ROLE {role} LOGIN")
        try:
            shop.run(
                "CREATE TABLE orders (id serial PRIMARY KEY, city text, state text,"
                " total numeric DEFAULT 1.50, photo bytea);"
                " CREATE VIEW paid AS SELECT * FROM orders WHERE state = 'paid';"
                " CREATE FUNCTION touch_orders() RETURNS int LANGUAGE sql AS"
                " $$ UPDATE orders SET state = 'touched'; SELECT 1 $$;"
            )
            shop.run(
                f"GRANT ALL ON orders, paid TO {role}; GRANT ALL ON orders_id_seq TO {role};"
                f" GRANT CREATE ON SCHEMA public TO {role}"
            )
            with psycopg.connect(url, autocommit=True) as admin, admin.cursor() as cursor:
                cursor.executemany("INSERT INTO orders (id, city, state) VALUES (%s, %s, %s)", ROWS)
            yield shop
        finally:
            shop.run(f"DROP OWNED BY {role}")
            with connect() as admin:
                admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
