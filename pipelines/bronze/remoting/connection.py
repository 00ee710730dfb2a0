"""Frames of RocketMQ's remoting protocol, and a connection that asks and is answered.

A frame is its length, the length of its header, the header in JSON and a body (RocketMQ 5.3,
`RemotingCommand.encode`, https://github.com/apache/rocketmq/tree/rocketmq-all-5.3.3/remoting).
A request names what it wants by a code and says the rest in `extFields`, whose values are texts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import socket
import ssl
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import orjson

from ingest.addresses import host_and_port
from pipelines.platform.sockets import answer_deadline, read_exactly

_VERSION = 473
"""5.3.3, as `MQVersion` counts. From 4.9.4 on, name servers answer in plain JSON."""
_RESPONSE = 1
"""The bit of `flag` that marks an answer."""
_LENGTHS = struct.Struct(">II")
_MOST_BYTES = 1 << 28
_SECONDS = 15.0
"""How long a server may be silent."""


class Access(NamedTuple):
    """The key pair that a broker with access control knows its clients by."""

    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return "Access(…)"

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The fields with the name and the signature that let them pass.

        The signature is of the fields' values in the order of their names, then of the body
        (`AclUtils.combineRequestContent`, `AclSigner`: HMAC-SHA1, base64).
        """
        named = {**fields, "AccessKey": self.access_key}
        content = "".join(named[name] for name in sorted(named)).encode() + body
        made = hmac.new(self.secret_key.encode(), content, hashlib.sha1).digest()
        return {**named, "Signature": base64.b64encode(made).decode()}


class Answer(NamedTuple):
    """What a server says to a request: a code, 0 where it did what was asked."""

    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes


class Connection:
    """A connection to one server, for one request at a time.

    Raises OSError if the server does not answer, or not in time, or what answers is no RocketMQ.
    """

    def __init__(
        self, address: str, *, access: Access | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        host, port = host_and_port(address)
        self._access = access
        self._numbers = itertools.count(1)
        self._socket = socket.create_connection((host, port), timeout=_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._read = self._socket.makefile("rb")
        self._deadline = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._read.close()
        self._socket.close()

    def ask(self, code: int, *, body: bytes = b"", **fields: str | int | bool) -> Answer:
        """Sends a request and waits for its answer."""
        texts = {name: _text(value) for name, value in fields.items()}
        if self._access is not None:
            texts = self._access.signed(texts, body)
        number = next(self._numbers)
        header = {
            "code": code,
            "language": "OTHER",
            "version": _VERSION,
            "opaque": number,
            "flag": 0,
            "extFields": texts,
            "serializeTypeCurrentRPC": "JSON",
        }
        self._deadline = answer_deadline()
        self._socket.sendall(frame(header, body))
        while True:
            answered, received = self._receive()
            # A broker may ask its clients, too; what it asks concerns groups that share queues.
            if answered.get("flag", 0) & _RESPONSE and answered["opaque"] == number:
                said = answered.get("remark") or ""
                return Answer(answered["code"], said, answered.get("extFields") or {}, received)

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        """The next frame: its header and its body."""
        length, header_length = _LENGTHS.unpack(self._bytes(_LENGTHS.size))
        # The highest byte says how the header is written: 0 is JSON.
        if header_length >> 24 or not header_length + 4 <= length <= _MOST_BYTES:
            raise ConnectionError("what answers there does not speak RocketMQ's remoting protocol")
        header = orjson.loads(self._bytes(header_length))
        return header, self._bytes(length - 4 - header_length)

    def _bytes(self, count: int) -> bytes:
        closed = "the server closed the connection"
        return read_exactly(self._read.read1, count, deadline=self._deadline, closed=closed)


def frame(header: Mapping[str, Any], body: bytes) -> bytes:
    """A request or an answer as it is sent."""
    written = orjson.dumps(header)
    return _LENGTHS.pack(4 + len(written) + len(body), len(written)) + written + body


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
