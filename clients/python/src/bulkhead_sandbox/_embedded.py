"""The daemon of this process: `sandbox serve --embedded`.

It ends when this process does, however that dies, because the kernel closes the pipe
that is its standard input. Programs with the same state folder share one daemon.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import threading
import weakref
from collections import deque

from .errors import UnavailableError

_READY = "sandbox: listening at "
_START = 60.0  # seconds
_END = 2.0


def find_binary() -> str | None:
    """Return the program sandbox, of $SANDBOX_BINARY or on PATH."""
    named = os.environ.get("SANDBOX_BINARY")
    if named:
        return shutil.which(named) or named
    return shutil.which("sandbox")


class Embedded:
    """A daemon that this process has started, or shares."""

    def __init__(self, binary: str) -> None:
        self._changed = threading.Condition()
        self._address: str | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._ended = False
        self.owner = os.getpid()
        try:
            self._process = subprocess.Popen(  # its own session: Ctrl-C is for this process
                [binary, "serve", "--embedded"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True, env={k: v for k, v in os.environ.items() if k not in ("SANDBOX_SERVER", "SANDBOX_HOST", "SANDBOX_TOKEN")},
            )
        except OSError as e:
            raise UnavailableError(f"the daemon cannot be started: {e}", resource=binary, hint="is $SANDBOX_BINARY the program sandbox?") from e
        threading.Thread(target=self._listen, name="sandbox-daemon", daemon=True).start()
        _running.add(self)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            with self._changed:
                if line.startswith(_READY + "unix:"):
                    self._address = line[len(_READY) :]
                else:
                    self._said.append(line)
                self._changed.notify_all()
        self._process.wait()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def ended(self) -> bool:
        return self._ended

    def address(self) -> str:
        """Return where the daemon listens, as soon as it does."""
        with self._changed:
            self._changed.wait_for(lambda: self._address is not None or self._ended, _START)
            if self._ended or self._address is None:
                said = self._said[-1] if self._said else "it has said nothing"
                raise UnavailableError(
                    f"the daemon of this process {'has ended' if self._ended else 'does not get ready'}: {said}", resource="sandbox serve",
                    retryable=True, hint="run `sandbox serve` and `sandbox doctor` to see why",
                )
            return self._address

    def close(self) -> None:
        """End the daemon, unless other programs share it, and wait a short time for its end."""
        _running.discard(self)
        if self.owner != os.getpid():
            return  # a child of fork: the daemon is the parent's
        p = self._process
        if p.stdin is not None:
            try:
                p.stdin.close()
            except OSError:
                pass
        try:
            p.wait(_END)
        except subprocess.TimeoutExpired:
            pass  # it drains, or other programs share it


_running: weakref.WeakSet[Embedded] = weakref.WeakSet()


def _forked() -> None:
    # The child's copy of the pipe would keep the daemon alive after the parent.
    for e in list(_running):
        stdin = e._process.stdin  # pyright: ignore[reportPrivateUsage]
        if stdin is not None:
            try:
                stdin.close()
            except OSError:
                pass


def _end() -> None:
    for e in list(_running):
        if e.owner == os.getpid():
            e.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)
atexit.register(_end)


Key = tuple[str, "str | None", "str | None"]


class Shared:
    """The embedded daemons of this process: clients share one, and the last ends it.

    Those with another program, state folder or settings file have another one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._daemons: dict[Key, tuple[Embedded, int]] = {}

    def acquire(self) -> Embedded:
        binary = find_binary()
        if binary is None:
            raise UnavailableError(
                "no address of a daemon is given, and the program sandbox is not on PATH to start one",
                field="url", hint="pass url=, set $SANDBOX_SERVER, or install sandbox and name it in $SANDBOX_BINARY",
            )
        key = (binary, os.environ.get("SANDBOX_STATE_DIR"), os.environ.get("SANDBOX_CONFIG"))
        with self._lock:
            d, uses = self._daemons.get(key, (None, 0))
            if d is None or d.ended:
                d, uses = Embedded(binary), 0
            self._daemons[key] = (d, uses + 1)
        try:
            d.address()
        except BaseException:
            self.release(d)
            raise
        return d

    def release(self, d: Embedded) -> None:
        last = True
        with self._lock:
            for key, (found, uses) in list(self._daemons.items()):
                if found is d:
                    last = uses <= 1
                    if last:
                        del self._daemons[key]
                    else:
                        self._daemons[key] = (d, uses - 1)
            last = last and (d.ended or not any(found is d for found, _ in self._daemons.values()))
        if last:
            d.close()


_shared = Shared()


def acquire() -> Embedded:
    """Return the daemon of this process, which is started where there is none."""
    return _shared.acquire()


def release(d: Embedded) -> None:
    """Give back what acquire has returned."""
    _shared.release(d)


def _forget() -> None:
    global _shared
    _shared = Shared()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
