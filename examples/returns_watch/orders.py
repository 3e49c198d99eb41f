"""Makes the shop's orders: a quiet day, 2026-11-28, and one on which kettles came back.

Usage: python orders.py shop.db
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

_SCHEMA = """
CREATE TABLE orders (
    id      INTEGER PRIMARY KEY,
    day     TEXT NOT NULL,
    product TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('paid', 'returned')),
    total   REAL NOT NULL
);
CREATE INDEX orders_day ON orders (day);
"""
_PRODUCTS = (("电热水壶", 129.0), ("保温杯", 59.0), ("台灯", 89.0), ("插线板", 39.0))
_PER_DAY = 200
_RETURNED = {
    "2026-11-28": {"电热水壶": 3, "台灯": 4, "保温杯": 1},
    "2026-11-29": {"电热水壶": 21, "台灯": 5, "保温杯": 2},
}


def make(path: Path) -> None:
    """Write the database; the file must not be there."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(_SCHEMA)
        for day, returned in _RETURNED.items():
            left = dict(returned)
            for number in range(_PER_DAY):
                product, price = _PRODUCTS[number % len(_PRODUCTS)]
                state = "returned" if left.get(product) else "paid"
                left[product] = left.get(product, 0) - (state == "returned")
                connection.execute(
                    "INSERT INTO orders (day, product, state, total) VALUES (?, ?, ?, ?)",
                    (day, product, state, price),
                )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
