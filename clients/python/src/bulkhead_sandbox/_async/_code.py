from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import models
from .._core import seconds, segment
from .._io_async import called

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox


class AsyncContexts:
    """Kernels with variables of their own."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sb = sandbox

    async def create(self, language: str = "python", cwd: str | None = None) -> models.CodeContext:
        """Start a kernel."""
        body = {"language": language} if cwd is None else {"language": language, "dir": cwd}
        return await self._sb._call("POST", "/code/contexts", models.CodeContext, json=body)

    async def list(self) -> list[models.CodeContext]:
        return (await self._sb._call("GET", "/code/contexts", models.CodeContextList, again=True)).items

    async def restart(self, id: str) -> models.CodeContext:
        """Start the kernel of a context anew. Its variables are lost."""
        return await self._sb._call("POST", f"/code/contexts/{segment(id)}/restart", models.CodeContext)

    async def delete(self, id: str) -> None:
        """End a context."""
        await self._sb._done("DELETE", f"/code/contexts/{segment(id)}")


async def run_code(
    sb: AsyncSandbox, code: str, language: str | None, context: str | models.CodeContext | None, on_event: Callable[[models.CodeEvent], Any] | None,
    timeout: float | None, env: Mapping[str, str] | None, cwd: str | None, ask: bool, tool: str | None,
) -> models.CodeRun:
    body: dict[str, Any] = {"code": code}
    if context is not None:
        body["context"] = context if isinstance(context, str) else context.id
    elif language is not None:
        body["language"] = language
    if timeout is not None:
        body["timeoutSeconds"] = seconds(timeout, "timeout")
    for name, value in (("env", dict(env) if env else None), ("dir", cwd), ("tool", tool), ("ask", ask or None)):
        if value is not None:
            body[name] = value
    await sb._opened()
    if on_event is None:
        return await sb._call("POST", "/code", models.CodeRun, json=body, unbounded=True)
    run: dict[str, Any] = {"dropped": 0, "results": [], "executionCount": 0}
    text = {"stdout": "", "stderr": ""}
    events = sb._t.events("POST", f"{sb._path}/code", sb._headers, json=body)
    try:
        async for e in events:
            if e.name == "code":
                c = models.CodeEvent.model_validate_json(e.data)
                if c.type in ("stdout", "stderr"):
                    text[c.type] += c.text or ""
                elif c.type == "result":
                    run["results"].append(c.result)
                elif c.type == "error":
                    run["error"] = c.error
                elif c.type == "count":
                    run["executionCount"] = c.execution_count or 0
                elif c.type == "truncated":
                    run["dropped"] += c.dropped or 0
                await called(on_event, c)
            elif e.name == "again":
                run = {"dropped": 0, "results": [], "executionCount": 0}
                text = {"stdout": "", "stderr": ""}
            elif e.name == "done":
                done = models.CodeDone.model_validate_json(e.data)
                return models.CodeRun.model_validate(
                    {**run, **text, "durationMs": done.duration_ms, "sandbox": done.sandbox, "timedOut": done.timed_out}
                )
    finally:
        await events.aclose()
    raise AssertionError("unreachable")
