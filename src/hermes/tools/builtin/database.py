"""Databases of the business, to look into and, with a person's leave, to change; group `database`.

What may be done is held by the databases themselves: files opened for reading alone with an
authorizer, read-only transactions, roles without power over the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hermes.core.clock import Clock, SystemClock
from hermes.errors import ConfigError, ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool

from .database_rows import MAX_ROWS, MAX_SQL_CHARS, Rows, Scalar, Source, is_blank, refused
from .offered import chosen, offering
from .options import BuiltinOptions, Database

Sql = Annotated[str, Field(min_length=1, max_length=MAX_SQL_CHARS)]
Parameters = Annotated[list[str | int | float | bool | None], Field(max_length=200)]

_TIMEOUT_S = 40.0
_SHOWN_CHARS = 2_000


class Databases:
    """The configured databases, by name."""

    def __init__(self, databases: tuple[Database, ...], *, clock: Clock) -> None:
        self._all = {each.name: each for each in databases}
        self._clock = clock

    @property
    def names(self) -> list[str]:
        """In the order of the settings."""
        return list(self._all)

    def source(self, name: str) -> Source:
        """A database by its name; "" is the only one.

        Raises:
            ToolError: There is none of that name.
            ConfigError: Its URL is none, or the driver is missing.
        """
        found = chosen(self._all, name, what="database", setting="HERMES_TOOL_DATABASES")
        scheme, _, rest = found.url.partition("://")
        if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
            from .database_sqlite import SQLiteSource

            return SQLiteSource(Path(rest[1:]), clock=self._clock)
        if scheme in ("postgresql", "postgres"):
            try:
                from .database_postgres import PostgresSource
            except ModuleNotFoundError as exc:
                raise ConfigError(
                    f"PostgreSQL needs a driver that is not installed here ({exc.name})",
                    hint="pip install 'hermes-courier[postgres]'",
                ) from exc
            return PostgresSource(found.url)
        raise ConfigError(
            f"the URL of database {found.name!r} names none",
            hint="write sqlite:///path or postgresql://user:password@host:port/name",
        )

    def fault(self) -> str | None:
        """What is wrong with the settings, for a health check."""
        if not self._all:
            return "no database is configured: set HERMES_TOOL_DATABASES"
        try:
            for name in self._all:
                self.source(name)
        except ConfigError as exc:
            return str(exc)
        return None


def _list_tables(databases: Databases) -> Tool:
    @tool(effect="read", group="database", timeout_s=_TIMEOUT_S, health=databases.fault)
    async def list_tables(database: str = "") -> dict[str, object]:
        """List the tables and views of a database.

        Use it first, where you do not know what there is; describe_database then tells the columns
        of one. Not for rows: use query_database.

        Example: list_tables(database="shop").

        Args:
            database: A configured database, by its name; may be left out if there is only one.

        Returns:
            {"tables": [{"name", "kind"}]}, in order of name; of other schemas than the usual one
            as schema.table.
        """
        return {"tables": await databases.source(database).tables()}

    return list_tables


def _describe_database(databases: Databases) -> Tool:
    @tool(effect="read", group="database", timeout_s=_TIMEOUT_S, health=databases.fault)
    async def describe_database(table: str, database: str = "") -> dict[str, object]:
        """Tell the columns and constraints of one table or view.

        Use it before you write SQL, so that no name is guessed. Not for rows: use query_database.

        Example: describe_database(table="orders", database="shop").

        Args:
            table: Its name exactly as list_tables gives it.
            database: A configured database, by its name; may be left out if there is only one.

        Returns:
            {"columns": [{"name", "type", "nullable", "default", "primary_key"}],
            "constraints": […]}.
        """
        found = await databases.source(database).describe(table)
        if found is None:
            raise ToolError(
                f"there is no table {table!r:.120}",
                code="not_found",
                hint="list_tables tells the names; write one of them to the letter",
            )
        return found

    return describe_database


def _query_database(databases: Databases) -> Tool:
    @tool(
        effect="read",
        group="database",
        timeout_s=_TIMEOUT_S,
        untrusted_output=True,
        health=databases.fault,
    )
    async def query_database(
        sql: Sql,
        database: str = "",
        parameters: Parameters = [],  # noqa: B006  # copied for each call
        limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 100,
    ) -> dict[str, object]:
        """Read rows by one SELECT; the database itself keeps it from changing anything.

        Use it for questions about data; let the database count, sum and sort rather than reading
        many rows. Not to change data: use execute_database. At most 20 seconds.

        Example: query_database(sql="SELECT count(*) FROM orders WHERE city = $1",
        parameters=["北京"], database="shop").

        Args:
            sql: One statement in the database's own dialect; values stand in it as $1, $2, …
            database: A configured database, by its name; may be left out if there is only one.
            parameters: The values of $1, $2, … in this order; never written into the text.
            limit: At most so many rows come back, 1 to 1000.

        Returns:
            {"columns": […], "rows": [[…]], "more": whether there were others}. Decimal numbers
            and dates are texts, long texts are cut, bytes are only told.
        """
        rows = await databases.source(database).query(_statement(sql), parameters, limit)
        return {"columns": rows.columns, "rows": rows.rows, "more": rows.more}

    return query_database


def _execute_database(databases: Databases) -> Tool:
    async def preview(
        sql: str,
        database: str = "",
        parameters: list[Scalar] | None = None,
        expected_rows: int | None = None,
    ) -> str:
        source = databases.source(database)
        found = await source.execute(_statement(sql), parameters or [], keep=False)
        where = f" in {database}" if database else ""
        wanted = "" if expected_rows is None else f" (it is only done for {expected_rows})"
        return (
            f"{sql[:_SHOWN_CHARS]}\nwith {parameters or 'no parameters'}: would change "
            f"{found.changed} rows{where}{wanted}; tried and rolled back"
        )

    @tool(
        effect="unsafe",
        group="database",
        timeout_s=_TIMEOUT_S,
        requires_approval=True,
        preview=preview,
        untrusted_output=True,
        health=databases.fault,
    )
    async def execute_database(
        sql: Sql,
        database: str = "",
        parameters: Parameters = [],  # noqa: B006  # copied for each call
        expected_rows: Annotated[int | None, Field(ge=0, le=1_000_000_000)] = None,
    ) -> dict[str, object]:
        """Change rows by one INSERT, UPDATE or DELETE, in one transaction; a person is asked first.

        Use it only where the task asks for a change. Not to read: use query_database; not for the
        schema: a person has to do that.

        Example: execute_database(sql="UPDATE orders SET state = $1 WHERE id = $2",
        parameters=["refunded", 17], expected_rows=1, database="shop").

        Args:
            sql: One statement in the database's own dialect; values stand in it as $1, $2, …
            database: A configured database, by its name; may be left out if there is only one.
            parameters: The values of $1, $2, … in this order; never written into the text.
            expected_rows: How many rows it must change; at any other number nothing is changed.
                Any number will do if left out.

        Returns:
            {"changed": rows, "columns": […], "rows": [[…]], "more": …}, the rows where the
            statement has RETURNING, 100 at most.
        """
        rows: Rows = await databases.source(database).execute(
            _statement(sql), parameters, keep=True, expected=expected_rows
        )
        return {
            "changed": rows.changed,
            "columns": rows.columns,
            "rows": rows.rows,
            "more": rows.more,
        }

    return execute_database


def _statement(sql: str) -> str:
    if is_blank(sql):
        raise refused("there is no statement in the text")
    if "\0" in sql:
        raise refused("the text holds a zero byte")
    return sql


def make(options: BuiltinOptions, *, clock: Clock) -> tuple[Tool, ...]:
    """The tools, with a clock of the caller's."""
    databases = Databases(options.databases, clock=clock)
    made = (
        _list_tables(databases),
        _describe_database(databases),
        _query_database(databases),
        _execute_database(databases),
    )
    return tuple(offering(each, "database", databases.names) for each in made)


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Databases of the business."""
    return make(options, clock=SystemClock())
