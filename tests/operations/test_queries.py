"""What `ingest sql` takes for a statement that only reads."""

from __future__ import annotations

import pytest

from ingest.errors import ConfigError
from pipelines.operations.queries import check_reading


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM gold.items;",
        "-- all of them\nselect `insert`, 'DROP; DELETE' FROM gold.items WHERE op = 'delete'",
        "WITH a AS (SELECT 1 AS x) SELECT * FROM a WHERE op <> 'DELETE'",
        "WITH a AS (SELECT 1 AS x) SELECT x AS `update` FROM a",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "VALUES (1), (2)",
        "TABLE gold.items",
        "FROM gold.items |> WHERE id > 1",
        "SELECT replace(name, 'a', 'b') FROM gold.items VERSION AS OF 3",
        "SELECT * FROM a JOIN b USING (id)",
        "SELECT reflect, identifier FROM a WHERE reflect IN (1)",
        "SHOW TABLES IN gold",
        "SHOW CREATE TABLE gold.items",
        "DESCRIBE HISTORY gold.items",
        "DESC gold.items",
        "EXPLAIN FORMATTED SELECT 1",
        "explain with a as (select 1) select * from a",
        "SELECT 'open",
    ],
)
def test_what_reads(query: str) -> None:
    check_reading(query)


@pytest.mark.parametrize(
    ("query", "got"),
    [
        ("", "nothing"),
        ("DELETE FROM gold.items", "DELETE"),
        ("insert into gold.items values (1)", "INSERT"),
        ("UPDATE gold.items SET a = 1", "UPDATE"),
        ("MERGE INTO gold.items t USING a s ON true WHEN MATCHED THEN DELETE", "MERGE"),
        ("CREATE TABLE gold.hello (a int)", "CREATE"),
        ("CREATE OR REPLACE TEMP VIEW a AS SELECT 1", "CREATE"),
        ("DROP TABLE gold.items", "DROP"),
        ("ALTER TABLE gold.items ADD COLUMN a int", "ALTER"),
        ("TRUNCATE TABLE gold.items", "TRUNCATE"),
        ("OPTIMIZE gold.items", "OPTIMIZE"),
        ("VACUUM gold.items", "VACUUM"),
        ("RESTORE TABLE gold.items TO VERSION AS OF 1", "RESTORE"),
        ("SET spark.sql.ansi.enabled = false", "SET"),
        ("ADD JAR 'a.jar'", "ADD JAR"),
        ("USE other", "USE"),
        ("CACHE TABLE gold.items", "CACHE"),
        ("CALL a.b()", "CALL"),
        ("BEGIN DELETE FROM gold.items; END", "several statements"),
        ("SELECT 1; DROP TABLE gold.items", "several statements"),
        ("SHOW TABLES; DROP TABLE gold.items", "several statements"),
        ("WITH a AS (SELECT 1) INSERT INTO gold.items SELECT * FROM a", "INSERT"),
        ("FROM a INSERT INTO gold.items SELECT *", "INSERT"),
        ("EXPLAIN DROP TABLE gold.items", "DROP"),
        ("SELECT reflect('java.lang.System', 'exit', 1)", "a call of a program"),
        ("SELECT `reflect`('java.lang.System', 'exit', 1)", "a call of a program"),
        ("SELECT java_method /**/ ('java.lang.System', 'exit', 1)", "a call of a program"),
        ("SELECT system.builtin.`Reflect` ('java.lang.System', 'exit', 1)", "a call of a program"),
        ("SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'exit')", "a call of a program"),
        ("SELECT TRANSFORM (a) USING 'cat' AS (b) FROM gold.items", "a call of a program"),
        ("SELECT TRANSFORM (a) USING r'cat' AS (b) FROM gold.items", "a call of a program"),
        ('SELECT TRANSFORM (a) USING "cat" AS (b) FROM gold.items', "a call of a program"),
        ("FROM gold.items MAP a USING R'cat' AS b", "a call of a program"),
    ],
)
def test_what_does_not(query: str, got: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_reading(query)
    sentence = f"expected one statement that only reads, got {got}; --write lets it change tables"
    assert str(caught.value).endswith(sentence)
