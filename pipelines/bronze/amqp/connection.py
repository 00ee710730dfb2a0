"""A connection to RabbitMQ, with a sentence for every failure.

The driver is `pika`; nothing outside of this package knows it. The headers of messages are read by
`tables` instead of the driver.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ingest.errors import PlatformError
from pipelines.bronze.amqp.tables import decode_frame

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingConnection

KNOCK_SECONDS = 5.0
"""How long an address may take to answer, and again to agree on a protocol and a login."""
HEARTBEAT = 120
"""Seconds after which the server checks whether its reader is still there. Between two reads nobody
answers it, so an append has to take less than twice as long."""
_LOGIN = "correct rabbitmq.user and rabbitmq.password"


class Refused(OSError):
    """The server answers, and refuses what it was asked; the text says what to do about it."""


class Unreachable(OSError):
    """No node of the server answers, or a connection to it broke, or what it holds does not arrive;
    the text says where."""


class Tls(NamedTuple):
    """How a server is recognised: by whom its certificate must be signed (None: by anyone whom the
    system trusts), and its name there if that is not its address; and the key and certificate with
    which to answer it."""

    ca_file: str | None
    server_name: str | None
    cert_file: str | None
    key_file: str | None


class Server(NamedTuple):
    """The nodes of one cluster, asked in turn, and a login there."""

    addresses: tuple[tuple[str, int], ...]
    virtual_host: str
    user: str
    password: str
    tls: Tls | None

    def __repr__(self) -> str:
        return f"Server({self.where})"

    @property
    def where(self) -> str:
        """The addresses, for people."""
        return ", ".join(f"{host}:{port}" for host, port in self.addresses)


@contextmanager
def connect(server: Server) -> Iterator[BlockingConnection]:
    """A connection to the first node that answers.

    Raises:
        PlatformError: the driver is not installed.
        Refused: the login, the virtual host, TLS, or later what a queue was asked.
        Unreachable: no node answers, or the connection broke.
    """
    exceptions = _driver()
    connection = _opened(server)
    try:
        yield connection
    except exceptions.ChannelClosedByBroker as error:
        raise _refusal(error.reply_text, server) from None
    except exceptions.ConnectionClosedByBroker as error:
        raise _ended(error.reply_code, error.reply_text, server) from None
    except exceptions.AMQPError as error:
        raise Unreachable(f"{server.where} (the connection broke: {_reason(error)})") from None
    finally:
        # Closing gives back what was fetched and not read, which a stream refuses with an error.
        with suppress(exceptions.AMQPError, OSError):
            if connection.is_open:
                connection.close()


def _driver() -> Any:
    try:
        import pika.exceptions
    except ModuleNotFoundError:
        raise PlatformError(
            "the driver of RabbitMQ is not installed: install the extra with"
            " `pip install 'delta-cdc-ingest[rabbitmq]'`"
        ) from None
    return pika.exceptions


def _opened(server: Server) -> BlockingConnection:
    import pika
    from pika.exceptions import AMQPConnectionError

    refusals = []
    for host, port in server.addresses:
        parameters = pika.ConnectionParameters(
            host=host,
            port=port,
            virtual_host=server.virtual_host,
            credentials=_credentials(server),
            ssl_options=_tls(server.tls, host),
            heartbeat=HEARTBEAT,
            socket_timeout=KNOCK_SECONDS,
            stack_timeout=2 * KNOCK_SECONDS,
            client_properties={"connection_name": "delta-cdc-ingest"},
        )
        try:
            return pika.BlockingConnection(parameters, _impl_class=_selecting())
        except AMQPConnectionError as error:
            _raise_if_refused(error, server)
            refusals.append(f"{host}:{port} ({_reason(error)})")
        except ssl.SSLCertVerificationError as error:
            raise Refused(
                f"the certificate of {host}:{port} is not taken: {error.verify_message};"
                " correct rabbitmq.tls"
            ) from None
        except ssl.SSLError as error:
            refusals.append(f"{host}:{port} ({error.reason or error}: is TLS spoken there?)")
        except OSError as error:
            refusals.append(f"{host}:{port} ({error.strerror or error})")
        except Exception as error:
            # A timeout on the way to a connection is not one of pika's AMQPErrors.
            if not type(error).__module__.startswith("pika."):
                raise
            refusals.append(f"{host}:{port} (nothing there speaks AMQP 0-9-1)")
    raise Unreachable(", ".join(refusals))


def _selecting() -> Any:
    """The driver's connection, with headers of messages as `tables` reads them; other users of the
    driver in this process keep its own."""
    from pika.adapters.select_connection import SelectConnection
    from pika.frame import decode_frame as decode

    class Selecting(SelectConnection):  # type: ignore[misc]
        def _read_frame(self) -> Any:
            return decode_frame(self._frame_buffer, decode)

    return Selecting


def _credentials(server: Server) -> Any:
    from pika.credentials import ExternalCredentials, PlainCredentials

    if server.tls is not None and server.tls.cert_file is not None and not server.password:
        return ExternalCredentials()
    return PlainCredentials(server.user, server.password)


def _tls(tls: Tls | None, host: str) -> Any:
    if tls is None:
        return None
    from pika import SSLOptions

    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as error:
        named = ", ".join(file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file)
        reason = error.strerror or str(error)
        raise Refused(f"a file of rabbitmq.tls cannot be used ({named}): {reason}") from None
    return SSLOptions(context, tls.server_name or host)


def _raise_if_refused(error: Exception, server: Server) -> None:
    text = str(error) + " ".join(map(str, error.args))
    if "(403)" in text:
        raise Refused(f"{server.where} refuses the login of {server.user!r}: {_LOGIN}") from None
    if "(530)" in text:
        raise Refused(
            f"{server.where} has no virtual host {server.virtual_host!r} for {server.user!r}:"
            " correct rabbitmq.virtual_host, or give the user permissions there"
        ) from None
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        raise Refused(
            f"the certificate of {server.where} is not taken: {reason}; correct rabbitmq.tls"
        ) from None


def _refusal(text: str, server: Server) -> Refused:
    """The error for a channel that the server closed: a queue cannot give what it was asked for."""
    queue = re.search(r"queue '(.+?)' in vhost", text)
    named = f"the queue {queue[1]!r}" if queue else "a queue"
    if "home node" in text:
        return Refused(
            f"the node that has a queue is down or just starting ({' '.join(text.split())}): run"
            " again once it serves"
        )
    if text.startswith("NOT_FOUND"):
        missing = re.search(r"no queue '(.+?)' in vhost", text)
        lacking = f"the queue {missing[1]!r}" if missing else named
        return Refused(
            f"{lacking} does not exist in virtual host {server.virtual_host!r} of {server.where}:"
            " declare it or correct rabbitmq.queues"
        )
    if text.startswith("ACCESS_REFUSED"):
        return Refused(
            f"{server.user!r} may not read {named} of {server.where}: give the user the permission"
            f" to read it ({' '.join(text.split())})"
        )
    return Refused(f"{server.where} refuses: {' '.join(text.split())}")


def _ended(code: int, text: str, server: Server) -> Refused | Unreachable:
    """The error for a connection that the server closed."""
    if code == 541:
        return Refused(
            f"{server.where} failed inside (541 {text}): a stream with compressed batches cannot be"
            " read by AMQP 0-9-1; let its publisher send without, or see the server's log"
        )
    return Unreachable(f"{server.where} (the server closed the connection: {code} {text})")


def _reason(error: Exception) -> str:
    """What pika says is at the root of a failed connection."""
    cause: Any = error.args[0] if error.args else error
    while getattr(cause, "exception", None) is not None:
        cause = cause.exception
    if isinstance(cause, OSError):
        return cause.strerror or str(cause)
    return str(cause) or type(cause).__name__
