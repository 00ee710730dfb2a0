"""Who a client is and whom it trusts, from the options that Kafka's Java client takes.

The options are those of `kafka.options`: Spark hands them to the Java client as they are, and here
they are read a second time. What only Java can do (Kerberos, a class of one's own, a key in a Java
keystore) is `Unsupported` here, and goes on working there.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple

from pipelines.platform.java import find_java

_PREFIX = "kafka."
_JAAS = re.compile(r"\s*(?:\w+\.)*(\w+)\s+\w+\s*(.*?);?\s*", re.DOTALL)
_PAIR = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_SECONDS = 15.0
_MOST_BYTES = 1 << 20
_UNSECURED = "unsecuredLoginStringClaim_"


class Unsupported(Exception):
    """An option that only Java's client knows how to follow; the text says which."""


class Refused(OSError):
    """What the options say cannot be used, or a server refuses it; the text says why."""


class Login(NamedTuple):
    """How to open a connection: `secure` is what TLS needs, None without; `mechanism` the one of
    SASL, None without; `named` whether a server's certificate has to name it."""

    secure: ssl.SSLContext | None
    mechanism: str | None
    user: str
    password: str
    token: Callable[[], str] | None

    def __repr__(self) -> str:
        return f"Login({self.mechanism})"


def login(options: Mapping[str, str]) -> Login:
    """The login that client options say, by their names with or without `kafka.`.

    Raises:
        Unsupported: only Java can do that.
        Refused: a file that is named cannot be used.
    """
    given = {name.removeprefix(_PREFIX): value for name, value in options.items()}
    if any(name.startswith("databricks.") for name in given):
        raise Unsupported("a login by a credential of Databricks")
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    secure = _secure(given) if protocol in ("SSL", "SASL_SSL") else None
    if not protocol.startswith("SASL_"):
        return Login(secure, None, "", "", None)
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    module, said = _jaas(given.get("sasl.jaas.config", ""))
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        if "username" not in said:
            raise Unsupported(f"sasl.jaas.config names no username for {mechanism}")
        return Login(secure, mechanism, said["username"], said.get("password", ""), None)
    if mechanism == "OAUTHBEARER" and module == "OAuthBearerLoginModule":
        return Login(secure, mechanism, "", "", lambda: _token(given, said))
    raise Unsupported(f"a login by {mechanism}")


def _jaas(text: str) -> tuple[str, dict[str, str]]:
    """The module's class, without its package, and what follows the flag."""
    found = _JAAS.fullmatch(text)
    if found is None:
        return "", {}
    values = {}
    for name, double, single, bare in _PAIR.findall(found[2]):
        values[name] = re.sub(r"\\(.)", r"\1", double or single) or bare
    return found[1], values


def _token(given: Mapping[str, str], said: Mapping[str, str]) -> str:
    """A token of OAUTHBEARER: of the endpoint that is named, else one that nobody signed, which
    only brokers for tests take."""
    endpoint = given.get("sasl.oauthbearer.token.endpoint.url")
    if endpoint is not None:
        return _fetched(endpoint, said)
    if "sasl.login.callback.handler.class" in given:
        raise Unsupported("a login by a class of its own (sasl.login.callback.handler.class)")
    now = int(time.time())
    claims = {
        **{n.removeprefix(_UNSECURED): v for n, v in said.items() if n.startswith(_UNSECURED)},
        **{"iat": now, "exp": now + 3600},
    }
    header = _base64url(b'{"alg":"none"}')
    return f"{header}.{_base64url(json.dumps(claims).encode())}."


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _fetched(endpoint: str, said: Mapping[str, str]) -> str:
    """A token by the grant of client credentials (RFC 6749, 4.4)."""
    if urllib.parse.urlsplit(endpoint).scheme not in ("http", "https"):
        raise Unsupported(f"a token from {endpoint}")
    form = {"grant_type": "client_credentials"}
    if "scope" in said:
        form["scope"] = said["scope"]
    pair = f"{said.get('clientId', '')}:{said.get('clientSecret', '')}"
    request = urllib.request.Request(endpoint, urllib.parse.urlencode(form).encode())
    basic = base64.b64encode(pair.encode()).decode()
    # Not sent on to where a redirect leads.
    request.add_unredirected_header("Authorization", f"Basic {basic}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return str(json.loads(_whole(answer))["access_token"])
    except urllib.error.HTTPError as error:
        raise Refused(f"{endpoint} gives no token: {error.code} {error.reason}") from None
    except HTTPException as error:
        got = f"expected an answer in HTTP, got none ({type(error).__name__})"
        raise Refused(f"{endpoint} gives no token: {got}") from None
    except (LookupError, TypeError):
        got = "its answer is no JSON object with access_token"
        raise Refused(f"{endpoint} gives no token: {got}") from None
    except (OSError, ValueError) as error:
        raise Refused(f"{endpoint} gives no token: {getattr(error, 'reason', error)}") from None


def _whole(answer: HTTPResponse) -> bytes:
    """The body of an answer, of bounded length and within bounded time, however it comes."""
    body, deadline = bytearray(), time.monotonic() + _SECONDS
    while part := answer.read1(1 << 16):
        body += part
        if len(body) > _MOST_BYTES:
            raise ValueError(f"its answer is longer than {_MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no whole answer within {_SECONDS:.0f} s")
    return bytes(body)


def _secure(given: Mapping[str, str]) -> ssl.SSLContext:
    """What TLS needs: whom to trust, and the certificate with which to answer."""
    context = ssl.create_default_context()
    if given.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    inline = given.get("ssl.truststore.certificates")
    location = given.get("ssl.truststore.location")
    try:
        if inline is not None:
            context = _trusting(context, inline)
        elif location is not None:
            context = _trusting(context, _certificates(location, given))
        _answering(context, given)
    except (OSError, ssl.SSLError) as error:
        named = location or given.get("ssl.keystore.location") or "kafka.options"
        raise Refused(f"a file of TLS cannot be used ({named}): {error}") from None
    return context


def _trusting(context: ssl.SSLContext, certificates: str) -> ssl.SSLContext:
    """A context that trusts these alone."""
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own.check_hostname = context.check_hostname
    own.load_verify_locations(cadata=certificates)
    return own


def _certificates(location: str, given: Mapping[str, str]) -> str:
    """The certificates of a truststore as PEM: of a Java keystore by Java's own tool."""
    if given.get("ssl.truststore.type", "JKS").upper() == "PEM":
        return Path(location).read_text(encoding="ascii")
    Path(location).stat()
    password = given.get("ssl.truststore.password", "")
    try:
        tool = find_java() / "bin" / "keytool"
    except Exception:
        raise Unsupported("a Java truststore where there is no Java") from None
    command = [str(tool), "-list", "-rfc", "-keystore", location, "-storepass:env", "STORE"]
    environment = {**os.environ, "STORE": password}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise Refused(f"a file of TLS cannot be used ({location}): {done.stdout.strip()}")
    return done.stdout


def _answering(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    """Loads the client's own certificate and key, where they are PEM."""
    chain, key = given.get("ssl.keystore.certificate.chain"), given.get("ssl.keystore.key")
    location = given.get("ssl.keystore.location")
    password = given.get("ssl.key.password")
    if chain is not None and key is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{chain}\n{key}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)
    elif location is not None:
        if given.get("ssl.keystore.type", "JKS").upper() != "PEM":
            raise Unsupported("a client's key in a Java keystore")
        context.load_cert_chain(location, password=password)
