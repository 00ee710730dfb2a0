"""What people read of a statement has no passwords in it."""

from __future__ import annotations

import time

import pytest

from ingest.ddl.secrets import masked


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("GRANT ALL ON *.* TO 'bo'@'%' IDENTIFIED BY 'h0rse'", "GRANT ALL ON *.* TO 'bo'@'%' ID"),
        ("CREATE USER bo IDENTIFIED WITH caching_sha2_password BY 'it''s h0rse'", None),
        ("CREATE USER bo IDENTIFIED WITH mysql_native_password AS '*h0rse'", None),
        ("CREATE USER bo IDENTIFIED BY h0rse DEFAULT TABLESPACE t", None),
        ('ALTER USER bo IDENTIFIED BY "h0rse" REPLACE "h0rse2"', None),
        ("CREATE ROLE bo WITH LOGIN PASSWORD 'h0rse' VALID UNTIL '2030-01-01'", None),
        ("ALTER ROLE bo ENCRYPTED PASSWORD 'h0rse'", None),
        ("CREATE LOGIN bo WITH PASSWORD = N'h0rse', CHECK_POLICY = OFF", None),
        ("ALTER LOGIN bo WITH PASSWORD = 'h0rse' OLD_PASSWORD = 'h0rse2'", None),
        ("SET PASSWORD FOR 'bo'@'%' = 'h0rse'", None),
        ("SET PASSWORD FOR bo = PASSWORD('h0rse')", None),
        ("CHANGE REPLICATION SOURCE TO SOURCE_HOST='db', SOURCE_PASSWORD='h0rse'", None),
        ("CREATE CREDENTIAL c WITH IDENTITY = 'bo', SECRET = 'h0rse'", None),
        ("CREATE TABLE t (id int) ENGINE=FEDERATED CONNECTION='mysql://bo:h0rse@db/s/t'", None),
        ("CREATE SUBSCRIPTION s CONNECTION 'host=db password=h0rse' PUBLICATION p", None),
        # cut off
        ("ALTER ROLE bo PASSWORD 'h0rse", None),
        ("ALTER ROLE bo PASSWORD 'h0rse\\", None),
        ("CREATE SUBSCRIPTION s CONNECTION 'host=db password=h0rse", None),
        ("CREATE USER MAPPING FOR bo SERVER s OPTIONS (user 'bo', password 'h0rse')", None),
    ],
)
def test_passwords_are_masked(statement: str, shown: str | None) -> None:
    found = masked(statement)
    assert "h0rse" not in found
    assert "'***'" in found
    assert found.startswith(shown or statement[:12])


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE users ADD COLUMN password varchar(9) DEFAULT 'none'",
        "CREATE TABLE t (password text COMMENT 'password ''x''')",
        "CREATE UNIQUE INDEX i ON users (password)",
        "GRANT SELECT ON t TO bo",
        "DROP TABLE password",
        "ALTER TABLE t ADD connection varchar(9) DEFAULT 'none'",
        "ALTER TABLE t ADD link varchar(99) DEFAULT 'https://bo:none@docs.example/a'",
        "ALTER TABLE t ADD link varchar(99) DEFAULT 'CONNECTION=''none'' or \\'x'",
        "ALTER TABLE t ADD link varchar(99) DEFAULT 'https://guest:guest@host/x'",
        "/* ApplicationName=x */ -- y\nALTER TABLE t ADD c text DEFAULT 'identified by you'",
        "# it's\nALTER TABLE t ADD link varchar(99) DEFAULT 'https://guest:guest@host/x'",
        "alter /* gh-ost */ table `t` add link varchar(99) default 'https://guest:guest@host/x'",
        "/*!50606 ALTER TABLE t ADD link varchar(99) DEFAULT 'https://guest:guest@host/x' */",
    ],
)
def test_statements_about_tables_stay(statement: str) -> None:
    assert masked(statement) == statement


def test_a_comment_before_a_table_is_masked() -> None:
    said = "DROP TABLE t /* at */"
    assert masked(f"/* by mysql://bo:h0rse@db */ {said}") == f"/* by mysql://***@db */ {said}"


def test_a_login_in_an_address_is_masked() -> None:
    statement = "CREATE STAGE s URL = 'sftp://bo:h0rse@host/x' COMMENT 'y'"
    assert masked(statement) == "CREATE STAGE s URL = 'sftp://***@host/x' COMMENT 'y'"


def test_a_long_statement_is_read_once() -> None:
    began = time.process_time()
    masked("SUBSCRIPTION a CONNECTION " * 40_000)
    masked("a://" * 200_000)
    masked("'" + "\\'" * 300_000)
    masked("CREATE TABLE t CONNECTION=" + "'\\'\"" * 200_000)
    masked("GRANT x " + "PASSWORD FOR " * 40_000 + "'")
    masked("SET PASSWORD FOR " + "a" * 500_000)
    masked("ALTER USER a " + "PASSWORD FOR \\'" * 40_000)
    masked("CREATE " * 100_000)
    masked("/*" * 200_000)
    masked("/**/" * 100_000 + "ALTER " + "/**/" * 100_000)
    assert time.process_time() - began < 5
