"""The errors of the SDK: one class for each code of the daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ._results import Result

__all__ = [
    "SandboxError", "PermissionDeniedError", "CapabilityBlockedError", "NotFoundError", "BusyError",
    "UnsupportedError", "ToolDeniedError", "BudgetExceededError", "ValidationError", "UnavailableError",
    "TimedOutError", "ExecutionError", "InternalError", "CommandError", "error_for",
]


class SandboxError(Exception):
    """Says what failed, where, and what to do next.

    ``code`` is stable, ``message`` may change. ``field`` is the part of the request or of
    the settings at fault, ``resource`` the object concerned, ``hint`` the next step, and
    ``status`` the status of the HTTP answer, 0 where there was none. ``retryable`` is
    whether the same call may succeed later.
    """

    code: str
    default_code: str = "UNKNOWN.INTERNAL"

    def __init__(
        self, message: str, *, code: str | None = None, field: str | None = None, resource: str | None = None,
        status: int = 0, hint: str | None = None, retryable: bool = False, request_id: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.field = field
        self.resource = resource
        self.status = status
        self.hint = hint
        self.retryable = retryable
        self.request_id = request_id
        self.details: dict[str, Any] = details or {}

    @property
    def remedy(self) -> str | None:
        """The next step; the same as ``hint``."""
        return self.hint

    def __str__(self) -> str:
        text = ": ".join(p for p in (self.code, self.field, self.message) if p)
        return f"{text} ({self.hint})" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), self.message, {k: v for k, v in self.__dict__.items() if k != "message"}))


def _restored(kind: type[SandboxError], message: str, state: dict[str, Any]) -> SandboxError:
    e = kind.__new__(kind, message)
    Exception.__init__(e, message)
    e.message = message
    e.__dict__.update(state)
    return e


class PermissionDeniedError(SandboxError):
    """The caller has no right to it: no valid token, another tenant, no grant."""

    default_code = "SANDBOX.PERMISSION_DENY"


class CapabilityBlockedError(SandboxError):
    """A policy forbids the path, host, size, link or setting."""

    default_code = "SANDBOX.CAPABILITY_BLOCKED"


class NotFoundError(SandboxError):
    """There is no such sandbox, shell, process or file."""

    default_code = "SANDBOX.NOT_FOUND"


class BusyError(SandboxError):
    """It is in use, exists already, or has changed."""

    default_code = "SANDBOX.BUSY"


class UnsupportedError(SandboxError):
    """The provider cannot do that."""

    default_code = "SANDBOX.UNSUPPORTED"


class ToolDeniedError(SandboxError):
    """A rule denies the tool, the command or the argument."""

    default_code = "POLICY.DENY_TOOL"


class BudgetExceededError(SandboxError):
    """A budget or quota is used up."""

    default_code = "QUOTA.BUDGET_EXCEEDED"


class ValidationError(SandboxError):
    """The request is malformed; ``field`` names the place."""

    default_code = "SCHEMA.VALIDATION_FAILED"


class UnavailableError(SandboxError):
    """The daemon or the engine does not answer, or the connection was cut."""

    default_code = "PROVIDER.UNAVAILABLE"


class TimedOutError(SandboxError):
    """There was no answer in time."""

    default_code = "PROVIDER.TIMEOUT"


class ExecutionError(SandboxError):
    """The command or tool could not be executed."""

    default_code = "TOOL.EXECUTION_FAILED"


class InternalError(SandboxError):
    """Any other failure."""

    default_code = "UNKNOWN.INTERNAL"


class CommandError(ExecutionError):
    """A command that was run with ``check=True`` has failed; ``result`` says how."""

    result: Result

    @classmethod
    def of(cls, result: Result) -> CommandError:
        how = f"has ended with status {result.exit_code}"
        if result.timed_out:
            how = "has run longer than its timeout"
        elif result.signal:
            how = f"was ended by the signal {result.signal}"
        tail = result.stderr.strip()[-500:]
        e = cls(f"the command {how}" + (f": {tail}" if tail else ""))
        e.result = result
        return e


_classes: dict[str, type[SandboxError]] = {
    c.default_code: c
    for c in (
        PermissionDeniedError, CapabilityBlockedError, NotFoundError, BusyError, UnsupportedError, ToolDeniedError,
        BudgetExceededError, ValidationError, UnavailableError, TimedOutError, ExecutionError, InternalError,
    )
}


def error_for(status: int, body: bytes) -> SandboxError:
    """Return the error that an answer of the daemon stands for."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        found = None
    document = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    code = document.get("code")
    if not isinstance(code, str):
        if status == 401:
            return PermissionDeniedError("the daemon knows no such token", status=status, hint="give one that `sandbox token create` made")
        return UnavailableError(
            f"the other side answers {status} and is no daemon", status=status, retryable=status in (502, 503, 504), hint="is the address right?",
        )

    def text(name: str) -> str | None:
        v = document.get(name)
        return v if isinstance(v, str) and v else None

    s: Any = document.get("status")
    return _classes.get(code, SandboxError)(
        text("detail") or text("title") or code, code=code, field=text("field"), resource=text("resource"),
        status=s if isinstance(s, int) and s else status, hint=text("hint"), retryable=document.get("retryable") is True,
        request_id=text("requestId"), details=document,
    )
