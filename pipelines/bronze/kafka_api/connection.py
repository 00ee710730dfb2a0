"""A connection to one broker: frames, the login, a question and its answer.

A request is its length, the number of the API, a version, a number of its own, the client's name,
and what the API says (https://kafka.apache.org/protocol, "Protocol Message Encoding").
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import secrets
import socket
import ssl
from types import TracebackType
from typing import Self

from pipelines.bronze.kafka_api import wire
from pipelines.bronze.kafka_api.login import Login, Refused
from pipelines.bronze.kafka_api.wire import Reader
from pipelines.platform.sockets import answer_deadline, read_exactly

SECONDS = 10.0
"""How long a broker may be silent."""
_CLIENT = "delta-cdc-ingest"
_MOST_BYTES = 1 << 28
_MOST_ROUNDS = 1 << 20
"""Of a password's hash, as a server asks for them: Kafka's own most is 16,384."""
_SASL_HANDSHAKE, _SASL_AUTHENTICATE, _API_VERSIONS = 17, 36, 18
_UNSUPPORTED_MECHANISM = 33


class Connection:
    """A connection to one broker, for one request at a time.

    Raises Refused if the broker does not take the login or its certificate is not taken, else
    OSError where it does not answer, or not in time, or what answers is no Kafka.
    """

    def __init__(self, host: str, port: int, login: Login) -> None:
        self._where = f"{host}:{port}"
        self._numbers = itertools.count(1)
        self._socket = socket.create_connection((host, port), timeout=SECONDS)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if login.secure is not None:
                self._socket = self._wrapped(login.secure, host)
            self._versions = self._asked_versions()
            if login.mechanism is not None:
                self._log_in(login, login.mechanism)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._socket.close()

    def newest(self, api: int) -> int:
        """The newest version of an API that the broker speaks; -1 where it lacks the API."""
        return self._versions.get(api, -1)

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> Reader:
        """The answer to a request; `flexible` where the version has tagged fields."""
        number = next(self._numbers)
        head = wire.int16(api) + wire.int16(version) + wire.int32(number) + wire.text(_CLIENT)
        frame = head + (b"\x00" if flexible else b"") + body
        deadline = answer_deadline()
        self._socket.sendall(wire.blob(frame))
        length = Reader(self._bytes(4, deadline)).int32()
        if not 4 <= length <= _MOST_BYTES:
            raise OSError("what answers there is no Kafka")
        answer = Reader(self._bytes(length, deadline))
        if answer.int32() != number:
            raise OSError("what answers there is no Kafka")
        if flexible:
            answer.tags()
        return answer

    def _bytes(self, count: int, deadline: float) -> bytes:
        closed = "the connection was closed; is TLS or a login expected?"
        return read_exactly(self._socket.recv, count, deadline=deadline, closed=closed)

    def _wrapped(self, secure: ssl.SSLContext, host: str) -> socket.socket:
        try:
            return secure.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message.rstrip(".")
            raise Refused(f"the certificate of {self._where} is not taken: {reason}") from None
        except ssl.SSLError as error:
            raise OSError(f"{error.reason or error}: is TLS spoken there?") from None

    def _asked_versions(self) -> dict[int, int]:
        """The newest version of each API; old brokers answer the oldest form of the question."""
        answer = self.ask(_API_VERSIONS, 0, b"")
        answer.int16()
        spoken = answer.array(lambda: (answer.int16(), answer.int16(), answer.int16()))
        return {api: newest for api, _, newest in spoken}

    def _log_in(self, login: Login, mechanism: str) -> None:
        answer = self.ask(_SASL_HANDSHAKE, 1, wire.text(mechanism))
        error = answer.int16()
        if error == _UNSUPPORTED_MECHANISM:
            offered = ", ".join(answer.array(lambda: answer.text() or "")) or "none"
            raise Refused(f"{self._where} does not offer a login by {mechanism}, but {offered}")
        if error:
            raise Refused(f"{self._where} expects no login, or another (error {error})")
        if mechanism == "PLAIN":
            self._say(f"\0{login.user}\0{login.password}".encode())
        elif login.token is not None:
            self._say(f"n,,\x01auth=Bearer {login.token()}\x01\x01".encode())
        else:
            self._scram(login, mechanism.removeprefix("SCRAM-").replace("-", "").lower())

    def _scram(self, login: Login, hash_: str) -> None:
        """The login of RFC 5802, in which no password crosses the wire."""
        user = login.user.replace("=", "=3D").replace(",", "=2C")
        nonce = secrets.token_urlsafe(18)
        first = f"n={user},r={nonce}"
        said = self._say(f"n,,{first}".encode()).decode()
        fields = dict(part.split("=", 1) for part in said.split(",") if "=" in part)
        rounds = fields.get("i", "")
        known = {"r", "s", "i"} <= fields.keys() and fields["r"].startswith(nonce)
        few = rounds.isdecimal() and len(rounds) < 9 and 1 <= int(rounds) <= _MOST_ROUNDS
        if not known or not few:
            raise Refused(f"{self._where} does not take the login: {fields.get('e', said)}")
        last = f"c=biws,r={fields['r']}"
        salted = hashlib.pbkdf2_hmac(
            hash_, login.password.encode(), base64.b64decode(fields["s"]), int(rounds)
        )
        key = hmac.digest(salted, b"Client Key", hash_)
        stored = hashlib.new(hash_, key).digest()
        signed = hmac.digest(stored, f"{first},{said},{last}".encode(), hash_)
        proof = bytes(one ^ other for one, other in zip(key, signed, strict=True))
        answered = self._say(f"{last},p={base64.b64encode(proof).decode()}".encode())
        expected = hmac.digest(
            hmac.digest(salted, b"Server Key", hash_), f"{first},{said},{last}".encode(), hash_
        )
        if not hmac.compare_digest(answered, b"v=" + base64.b64encode(expected)):
            raise Refused(f"{self._where} does not know the password it was given")

    def _say(self, message: bytes) -> bytes:
        """One step of a login, and what the broker says to it."""
        answer = self.ask(_SASL_AUTHENTICATE, 0, wire.blob(message))
        error, text = answer.int16(), answer.text()
        said = answer.blob()
        if error:
            raise Refused(f"{self._where} does not take the login: {text}")
        if said.startswith(b'{"status"'):
            # An OAuth broker tells why, and waits for a last word before it says no.
            reason = said.decode(errors="replace")
            raise Refused(f"{self._where} does not take the token: {reason}")
        return said
