"""What commands, streams and watches come to."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Union

from . import models
from .errors import CommandError


class Result:
    """How a command ended, and what it has written."""

    __slots__ = ("stdout_bytes", "stderr_bytes", "details", "lost")

    def __init__(self, details: models.Exit | models.ExecResult, stdout: bytes, stderr: bytes, lost: int = 0) -> None:
        self.stdout_bytes = stdout
        self.stderr_bytes = stderr
        #: Everything that the daemon reports.
        self.details = details
        #: Bytes that were not kept any more when they were asked for.
        self.lost = lost

    @classmethod
    def of(cls, r: models.ExecResult) -> Result:
        """Return the result that an answer of the daemon stands for."""
        out = base64.b64decode(r.stdout_base64) if r.stdout_base64 else r.stdout.encode("utf-8", "surrogatepass")
        err = base64.b64decode(r.stderr_base64) if r.stderr_base64 else r.stderr.encode("utf-8", "surrogatepass")
        return cls(r, out, err)

    @property
    def stdout(self) -> str:
        """The output as text; bytes that are no UTF-8 are replaced, see ``stdout_bytes``."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def exit_code(self) -> int:
        return self.details.exit_code

    @property
    def ok(self) -> bool:
        return self.details.exit_code == 0 and not self.details.timed_out

    @property
    def signal(self) -> str | None:
        """The signal that ended it, such as KILL."""
        return self.details.signal or None

    @property
    def timed_out(self) -> bool:
        return self.details.timed_out

    @property
    def truncated(self) -> bool:
        """Not all that was written is here."""
        return self.details.truncated or self.lost > 0

    @property
    def blocked(self) -> bool:
        """Rules have stopped it."""
        return self.details.blocked

    @property
    def blocked_reason(self) -> str | None:
        return self.details.blocked_reason

    @property
    def limit(self) -> models.LimitHit | None:
        """The limit that was reached."""
        return self.details.limit

    @property
    def restarted(self) -> bool:
        """Of a shell: it was started again, and its state is lost."""
        return self.details.restarted

    @property
    def lost_dir(self) -> str | None:
        """Of a shell: its working folder, which a rollback has taken away. The line began in the workspace."""
        return self.details.lost_dir

    @property
    def violations(self) -> list[models.Violation]:
        return self.details.violations

    @property
    def warnings(self) -> list[str]:
        return self.details.warnings or []

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.details.duration_ms / 1000

    def check(self) -> Result:
        """Return the result itself, or raise CommandError where the command failed."""
        if not self.ok:
            raise CommandError.of(self)
        return self

    def __repr__(self) -> str:
        return f"Result(exit_code={self.exit_code}, stdout={self.stdout!r}, stderr={self.stderr!r})"


@dataclass(frozen=True)
class Stdout:
    """A piece of output."""

    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Stderr:
    """A piece of the output of errors."""

    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Dropped:
    """So many bytes before what comes next are not kept any more."""

    bytes: int


@dataclass(frozen=True)
class Again:
    """The command starts again with a permission: what came before is void."""


@dataclass(frozen=True)
class Exit:
    """How the command ended; the last event."""

    details: models.Exit

    @property
    def exit_code(self) -> int:
        return self.details.exit_code

    @property
    def signal(self) -> str | None:
        return self.details.signal or None

    @property
    def timed_out(self) -> bool:
        return self.details.timed_out


OutputEvent = Union[Stdout, Stderr, Dropped, Again, Exit]


@dataclass(frozen=True)
class WatchEvent:
    """What a watch reports.

    ``type`` is ready (the first: what happens from now on is reported), change, note (what
    the watch cannot see) or overflow (changes were lost). The other fields are those of a
    change; ``message`` is that of a note or an overflow.
    """

    type: str
    kind: str | None = None
    path: str | None = None
    name: str | None = None
    to: str | None = None
    message: str | None = None
    details: models.Change | models.WatchNote | models.WatchReady | None = field(default=None, repr=False)




def display_bytes(d: models.CodeDisplay, kind: str) -> bytes | None:
    """Return what a result of code shows as png, jpeg or pdf."""
    coded: Any = getattr(d, kind)
    return base64.b64decode(coded) if coded else None
