"""Run what AI agents write in isolated sandboxes.

    from bulkhead_sandbox import Sandbox

    with Sandbox("chat-42") as sb:
        print(sb.run("python3 -c 'print(1)'").stdout)

AsyncSandbox and AsyncClient have the same methods as Sandbox and Client, to be awaited.
"""

from . import models
from ._async._browser import AsyncBrowser
from ._async._client import AsyncApprovals, AsyncClient, AsyncTokens
from ._async._code import AsyncContexts
from ._async._files import AsyncFiles
from ._async._network import AsyncNetwork
from ._async._ports import AsyncConnection, AsyncPorts
from ._async._processes import FROM_NOW, AsyncCommandStream, AsyncProcess, AsyncShell
from ._async._sandbox import AsyncSandbox
from ._async._terminal import AsyncTerminal
from ._async._tools import AsyncTools
from ._results import Again, Dropped, Exit, OutputEvent, Result, Stderr, Stdout, WatchEvent
from ._sync._browser import Browser
from ._sync._client import Approvals, Client, Tokens
from ._sync._code import Contexts
from ._sync._files import Files
from ._sync._network import Network
from ._sync._ports import Connection, Ports
from ._sync._processes import CommandStream, Process, Shell
from ._sync._sandbox import Sandbox
from ._sync._terminal import Terminal
from ._sync._tools import Tools
from .errors import (
    BudgetExceededError,
    BusyError,
    CapabilityBlockedError,
    CommandError,
    ExecutionError,
    InternalError,
    NotFoundError,
    PermissionDeniedError,
    SandboxError,
    TimedOutError,
    ToolDeniedError,
    UnavailableError,
    UnsupportedError,
    ValidationError,
)

__version__ = "0.1.0"

__all__ = [
    "FROM_NOW", "Again", "Approvals", "AsyncApprovals", "AsyncBrowser", "AsyncClient", "AsyncCommandStream", "AsyncConnection", "AsyncContexts", "AsyncFiles",
    "AsyncNetwork", "AsyncPorts", "AsyncProcess", "AsyncSandbox", "AsyncShell", "AsyncTerminal", "AsyncTokens", "AsyncTools", "Browser", "BudgetExceededError",
    "BusyError", "CapabilityBlockedError", "Client", "CommandError", "CommandStream", "Connection", "Contexts", "Dropped", "ExecutionError", "Exit", "Files",
    "InternalError", "Network", "NotFoundError", "OutputEvent", "PermissionDeniedError", "Ports", "Process", "Result", "Sandbox", "SandboxError", "Shell",
    "Stderr", "Stdout", "Terminal", "TimedOutError", "Tokens", "ToolDeniedError", "Tools", "UnavailableError", "UnsupportedError", "ValidationError",
    "WatchEvent", "models",
]
