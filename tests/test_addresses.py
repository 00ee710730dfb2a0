"""Addresses of brokers, as people write them."""

import pytest

from ingest.addresses import host_and_port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka:9092", ("kafka", 9092)),
        (" kafka.example.com:1 ", ("kafka.example.com", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("SASL_SSL://kafka:9092", ("kafka", 9092)),
    ],
)
def test_a_host_and_its_port(text: str, expected: tuple[str, int]) -> None:
    assert host_and_port(text) == expected


@pytest.mark.parametrize(
    "text", ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "a:1:b"]
)
def test_what_is_none_is_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=f"got `{text}`"):
        host_and_port(text)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="a user before an @") as raised:
        host_and_port("ada:s3cret@kafka:9092")
    assert "s3cret" not in str(raised.value)
