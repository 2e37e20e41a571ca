"""What both surfaces share: addresses, requests, events of streams, WebSocket frames.

Nothing here does I/O.
"""

from __future__ import annotations

import base64
import json
import os
import posixpath
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union, cast
from urllib.parse import quote, urlencode, urlsplit

import httpcore

from .errors import (
    SandboxError, TimedOutError, UnavailableError, ValidationError,
)

Command = Union[str, Sequence[str]]
Data = Union[bytes, bytearray, memoryview, str]  # what is written; a str is its UTF-8

WORKSPACE = "/workspace"
MAX_INPUT = 1 << 20  # bytes of input that one request takes
MAX_ANSWER = 64 << 20
MAX_SETTINGS = 24 << 10
SILENCE = 60.0  # seconds after which a stream counts as cut; a daemon reports every 15 that it is there
CONNECT = 10.0


@dataclass(frozen=True)
class Address:
    """Where a daemon listens."""

    scheme: bytes  # http or https
    host: bytes
    port: int | None
    socket: str | None

    @property
    def authority(self) -> bytes:
        host = b"[" + self.host + b"]" if b":" in self.host else self.host
        return host if self.port is None else host + b":" + str(self.port).encode()

    @property
    def text(self) -> str:
        return f"unix:{self.socket}" if self.socket else f"{self.scheme.decode()}://{self.authority.decode()}"


def parse_address(url: str) -> Address:
    """Read unix:PATH, tcp:HOST:PORT, http://HOST[:PORT] or https://HOST[:PORT]."""

    def wrong(why: str) -> ValidationError:
        return ValidationError(f"the address {url!r} {why}", field="url", hint="write unix:PATH, tcp:HOST:PORT, http://HOST or https://HOST")

    if not url or re.search(r"[\x00-\x20\x7f]", url.removeprefix("unix:") if not url.startswith("unix:") else ""):
        raise wrong("is none")
    if url.startswith("unix:"):
        path = url[5:].removeprefix("//") if url.startswith("unix:///") else url[5:]
        if not path or "\x00" in path:
            raise wrong("has no path")
        return Address(b"http", b"localhost", None, path)
    if url.startswith("tcp:"):
        url = "http://" + url[4:].removeprefix("//")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("ascii")
    except (ValueError, UnicodeError):
        raise wrong("cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise wrong("is none")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
        raise wrong("has more than a host and a port")
    return Address(parts.scheme.encode(), host, port, None)


def loopback(a: Address) -> bool:
    return a.socket is not None or a.host == b"localhost" or a.host == b"::1" or re.fullmatch(rb"127\.\d+\.\d+\.\d+", a.host) is not None


def check_token(a: Address, token: str | None) -> None:
    if not token:
        return
    if re.search(r"[^\x21-\x7e]", token):
        raise ValidationError("the token has characters that no token has", field="token", hint="was a line end left behind it?")
    if a.scheme == b"http" and not loopback(a):
        raise ValidationError("the token would go over the network in plain text", field="url", hint="use https, or a tunnel to a loopback address")


@dataclass(frozen=True)
class Identity:
    """Who calls, and with which settings."""

    tenant: str | None = None
    agent: str | None = None
    session: str | None = None
    settings: str | None = None

    def headers(self) -> list[tuple[bytes, bytes]]:
        out: list[tuple[bytes, bytes]] = []
        for name, value in (("Tenant", self.tenant), ("Agent", self.agent), ("Session", self.session), ("Settings", self.settings)):
            if value:
                out.append((b"Sandbox-" + name.encode(), header_value(value, name.lower())))
        return out


def header_value(value: str, field: str) -> bytes:
    if re.search(r"[^\x20-\x7e]", value) or value != value.strip():
        raise ValidationError(f"{value!r} cannot be sent in a header", field=field, hint="use letters, digits and - _ .")
    return value.encode("ascii")


def settings_header(settings: Mapping[str, Any] | None, workspace: str | None = None) -> str | None:
    """Return the value of the header Sandbox-Settings."""
    if not settings and not workspace:
        return None
    layer: dict[str, Any] = {}
    if settings:
        layer["settings"] = settings
    if workspace:
        layer["workspace"] = workspace
    try:
        text = json.dumps(layer, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as e:
        raise ValidationError(f"the settings are no JSON: {e}", field="settings") from None
    if len(text) > MAX_SETTINGS:
        raise ValidationError(
            f"the settings have {len(text)} bytes, and at most {MAX_SETTINGS} can be sent", field="settings",
            hint="put them into the settings file of the daemon",
        )
    return text


def encoded(value: object) -> bytes:
    """Return the JSON of a request."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError("a text holds half of a surrogate pair, which UTF-8 cannot express", hint="pass bytes where bytes are meant") from None
    except (TypeError, ValueError) as e:
        raise ValidationError(f"the request is no JSON: {e}") from None


def segment(text: str) -> str:
    """Return one part of a path of the API."""
    return quote(text, safe="", errors="strict")


def file_path(path: str | os.PathLike[str]) -> str:
    """Return the part of an address that names a file: absolute, without its first slash."""
    text = os.fspath(path)
    if not text:
        raise ValidationError("the path is empty", field="path", hint='"." is the workspace')
    if text.startswith("file://"):
        text = text[7:]
    clean = posixpath.normpath(posixpath.join(WORKSPACE, text)).lstrip("/")
    try:
        return quote(clean, safe="/", errors="strict")
    except UnicodeEncodeError:
        raise ValidationError("the path is no UTF-8", field="path") from None


def target(path: str, query: Mapping[str, Any] | None = None) -> bytes:
    """Return path and query of an address. None is left out, and a list is a name several times."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs += [(name, "true" if v is True else "false" if v is False else str(v)) for v in values if v is not None]
    if pairs:
        try:
            return f"{path}?{urlencode(pairs)}".encode("ascii")
        except UnicodeEncodeError:
            raise ValidationError("a part of the request is no UTF-8") from None
    return path.encode("ascii")


def command_fields(
    command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None, stdin: Data | None = None,
    timeout: float | None = None, user: str | None = None, ask: bool = False, tool: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a request that runs a command. A str is a line for the shell."""
    out: dict[str, Any] = {}
    if isinstance(command, str):
        out["line"] = command
    elif isinstance(command, (bytes, bytearray)):  # a sequence too, of numbers
        raise ValidationError("the command is bytes", field="command", hint="a str is a line for the shell, a list of str is a program and its arguments")
    else:
        out["args"] = [os.fspath(a) for a in command]
    if cwd is not None:
        out["dir"] = os.fspath(cwd)
    if env:
        out["env"] = dict(env)
    if stdin is not None:
        out.update(data_fields(stdin, "stdin", "stdinBase64"))
    if timeout is not None:
        out["timeoutSeconds"] = seconds(timeout, "timeout")
    if user:
        out["user"] = user
    if ask:
        out["ask"] = True
    if tool:
        out["tool"] = tool
    return out


def seconds(value: float, field: str) -> float:
    if value != value or value < 0 or value == float("inf"):
        raise ValidationError(f"{value} is no number of seconds", field=field)
    return value


def octets(data: Any) -> bytes:
    if isinstance(data, str):
        try:
            return data.encode("utf-8")
        except UnicodeEncodeError:
            raise ValidationError("the text holds half of a surrogate pair, which UTF-8 cannot express", hint="pass bytes where bytes are meant") from None
    return bytes(data)


def data_fields(data: Data, text: str, coded: str) -> dict[str, str]:
    """Return the field of a request with data: as text where it is that."""
    if isinstance(data, str):
        return {text: data}
    try:
        return {text: str(data, "utf-8")}
    except UnicodeDecodeError:
        return {coded: base64.b64encode(data).decode("ascii")}


def failure(e: BaseException, address: str) -> SandboxError:
    """Return the error of a call without an answer."""
    if isinstance(e, SandboxError):
        return e
    why = str(e) or type(e).__name__
    if isinstance(e, httpcore.LocalProtocolError):
        return ValidationError(f"the request cannot be made: {why}")
    if isinstance(e, httpcore.ReadTimeout):
        return TimedOutError("the daemon did not answer in time", resource=address, retryable=True)
    return UnavailableError(
        f"the daemon does not answer: {why}", resource=address, retryable=True,
        hint="is it running (`sandbox serve`), and is the address right?",
    )


def cut(why: str = "") -> UnavailableError:
    return UnavailableError("the stream was cut off, and it is not known what came after it" + (f": {why}" if why else ""), retryable=False)


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    name: str
    id: str
    data: bytes


class Events:
    """Reads server-sent events from the pieces of an answer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer that hold no line end
        self._name = self._id = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[Event]:
        out: list[Event] = []
        self._buffer += piece
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._searched))) >= 0:
            line = bytes(self._buffer[start:end])
            start = end + 1
            if line.endswith(b"\r"):
                line = line[:-1]
            if not line:
                if self._data:
                    out.append(Event(self._name, self._id, b"\n".join(self._data)))
                self._name = self._id = ""
                self._data = []
                continue
            field, _, value = line.partition(b":")
            if value.startswith(b" "):
                value = value[1:]
            if field == b"data":
                self._data.append(value)
            elif field == b"event":
                self._name = value.decode("utf-8", "replace")
            elif field == b"id":
                self._id = value.decode("utf-8", "replace")
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if len(self._buffer) > MAX_ANSWER:
            raise UnavailableError("an event of the daemon has no end")
        return out


def event_object(data: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnavailableError("an event of the daemon cannot be read")
    return found  # pyright: ignore[reportUnknownVariableType]


def output_bytes(data: bytes) -> bytes:
    """Return what an event stdout or stderr holds."""
    found = event_object(data)
    coded = found.get("base64")
    if isinstance(coded, str):
        return base64.b64decode(coded)
    text = found.get("text")
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""


# WebSocket frames, RFC 6455.

WS_TEXT, WS_BINARY, WS_CLOSE, WS_PING, WS_PONG = 1, 2, 8, 9, 10


def ws_frame(kind: int, payload: bytes) -> bytes:
    """Return a frame as a client sends it: masked."""
    n = len(payload)
    head = bytes([0x80 | kind])
    if n < 126:
        head += bytes([0x80 | n])
    elif n < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", n)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", n)
    key = os.urandom(4)
    if not n:
        return head + key
    mask = int.from_bytes((key * (n // 4 + 1))[:n], "big")
    return head + key + (int.from_bytes(payload, "big") ^ mask).to_bytes(n, "big")


class Frames:
    """Reads frames that a server sends, as messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._kind = 0
        self._parts = bytearray()

    def feed(self, piece: bytes) -> list[tuple[int, bytes]]:
        self._buffer += piece
        out: list[tuple[int, bytes]] = []
        while True:
            b = self._buffer
            if len(b) < 2:
                return out
            n, at = b[1] & 0x7F, 2
            if n == 126:
                if len(b) < 4:
                    return out
                n, at = struct.unpack_from(">H", b, 2)[0], 4
            elif n == 127:
                if len(b) < 10:
                    return out
                n, at = struct.unpack_from(">Q", b, 2)[0], 10
            if b[1] & 0x80 or b[0] & 0x70 or n > MAX_ANSWER or n + len(self._parts) > MAX_ANSWER:
                raise UnavailableError("the daemon sends frames that are none of RFC 6455")
            if len(b) < at + n:
                return out
            final, kind, payload = b[0] & 0x80, b[0] & 0x0F, bytes(b[at : at + n])
            del b[: at + n]
            if kind >= 8:
                out.append((kind, payload))
                continue
            if kind:
                self._kind = kind
                self._parts.clear()
            self._parts += payload
            if final:
                out.append((self._kind, bytes(self._parts)))
                self._parts.clear()
