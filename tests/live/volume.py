"""A large table of PostgreSQL under the load of sysbench's `oltp_write_only`, as long as a block
lasts, and sums by which two copies of it compare.

https://github.com/akopytov/sysbench/blob/1.0.20/src/lua/oltp_common.lua: a transaction updates an
indexed column, one without index, and deletes a row and inserts it anew.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.live.servers import Server, connect

TABLE = "sbtest1"
SESSIONS = 2
PAUSE = 0.02  # seconds between a session's transactions
BUCKETS = 16
_SEED = 1
_DIGITS = 15  # of a hash in hexadecimal: 60 bits


def prepare(server: Server, rows: int) -> None:
    """Make the table of so many rows."""
    with closing(connect(server)) as connection:
        connection.execute(
            f"CREATE TABLE {TABLE} (id int PRIMARY KEY, k int NOT NULL, c varchar(120) NOT NULL,"
            " pad varchar(60) NOT NULL)"
        )
        connection.execute(
            f"INSERT INTO {TABLE} SELECT n, n * 7 % {rows}, repeat(md5(n::text), 3),"
            f" md5((-n)::text) FROM generate_series(1, {rows}) n"
        )
        connection.execute(f"CREATE INDEX k_1 ON {TABLE} (k)")


@contextmanager
def load(server: Server, rows: int) -> Iterator[Callable[[], int]]:
    """Sessions that write, and a count of their transactions so far.

    Raises what ended one of them.
    """
    ended, failed, done = threading.Event(), [], [0] * SESSIONS

    def work(session: int) -> None:
        chance = random.Random(_SEED + session)
        try:
            with closing(connect(server)) as connection:
                while not ended.wait(PAUSE):
                    _transact(connection, chance, rows, session)
                    done[session] += 1
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(done)
    finally:
        ended.set()
        for thread in threads:
            thread.join(30)
    if failed:
        raise failed[0]


def _transact(connection: Any, chance: random.Random, rows: int, session: int) -> None:
    # Each session has rows of its own, so that none waits for another.
    ids = [chance.randrange(session + 1, rows + 1, SESSIONS) for _ in range(3)]
    number, text = chance.randrange(rows), f"{chance.getrandbits(400):0120x}"
    connection.execute("BEGIN")
    connection.execute(f"UPDATE {TABLE} SET k = k + 1 WHERE id = {ids[0]}")
    connection.execute(f"UPDATE {TABLE} SET c = '{text[:119]}' WHERE id = {ids[1]}")
    connection.execute(f"DELETE FROM {TABLE} WHERE id = {ids[2]}")
    connection.execute(f"INSERT INTO {TABLE} VALUES ({ids[2]}, {number}, '{text[:60]}', 'anew')")
    connection.execute("COMMIT")


def sums(server: Server) -> list[tuple[int, int, int]]:
    """The table by buckets of its ids: the bucket, its rows, the sum of their hashes."""
    hashed = f"('x' || substr(md5(concat_ws('|', id, k, c, pad)), 1, {_DIGITS}))"
    query = (
        f"SELECT id % {BUCKETS}, count(*), sum({hashed}::bit({4 * _DIGITS})::bigint) FROM {TABLE}"
        " GROUP BY 1 ORDER BY 1"
    )
    with closing(connect(server)) as connection:
        return [(int(a), int(b), int(c)) for a, b, c in connection.execute(query).fetchall()]


def sums_query(table: str) -> str:
    """The same of a copy, as Spark is asked for it: columns bucket, count and hash, as texts."""
    hashed = f"conv(substr(md5(concat_ws('|', id, k, c, pad)), 1, {_DIGITS}), 16, 10)"
    return (
        f"SELECT string(id % {BUCKETS}) bucket, string(count(*)) count,"
        f" string(sum(cast({hashed} AS decimal(20)))) hash FROM {table} GROUP BY id % {BUCKETS}"
        f" ORDER BY id % {BUCKETS}"
    )
