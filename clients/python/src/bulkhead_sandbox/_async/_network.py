from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import models

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox


class AsyncNetwork:
    """Which hosts programs inside can reach."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sb = sandbox

    async def set(self, rules: Mapping[str, Any] | list[str]) -> models.Sandbox:
        """Replace the rules that the sandbox was created with, while it runs.

        A list are the hosts that can be reached; a dict has allowedDomains and deniedDomains.
        """
        from ._sandbox import rules as form

        info = await self._sb._call("PUT", "/network", models.Sandbox, json=form(rules))
        self._sb._info = info
        return info
