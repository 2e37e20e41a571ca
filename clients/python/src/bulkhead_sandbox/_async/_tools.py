from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import models
from .._core import segment
from .._io_async import called

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox


class AsyncTools:
    """The tools of the session's agent."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sb = sandbox

    async def list(self) -> list[models.Tool]:
        """Return the tools that may be called, with the schemas of their input."""
        return (await self._sb._call("GET", "/tools", models.ToolList, again=True)).items

    async def call(
        self, name: str, input: Mapping[str, Any] | None = None, *, on_progress: Callable[[models.ToolProgress], Any] | None = None,
        ask: bool = False, subagent: bool = False,
    ) -> models.ToolAnswer:
        """Call a tool. That a command fails is an answer with ``failed``; a refusal is an error."""
        sb = await self._sb._opened()
        below = f"{sb._path}/tools/{segment(name)}"
        query = {"ask": ask or None, "subagent": subagent or None}
        events = sb._t.events("POST", below, sb._headers, query=query, json=dict(input or {}))
        try:
            async for e in events:
                if e.name == "progress":
                    await called(on_progress, models.ToolProgress.model_validate_json(e.data))
                elif e.name == "answer":
                    return models.ToolAnswer.model_validate_json(e.data)
        finally:
            await events.aclose()
        raise AssertionError("unreachable")
