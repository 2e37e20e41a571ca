"""inspect_ai's own checks of an environment, all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai.util._sandbox.self_check import *  # noqa: E402,F403

from bulkhead_sandbox.adapters.inspect_ai import BulkheadSandboxEnvironment  # noqa: E402

# What the daemon does not do, and with what it says so.
KNOWN = {
    "test_exec_as_user": "no command of a sandbox runs as root",
    "test_exec_large_command": "rules read a command of up to 1,000,000 characters",
}


@pytest.fixture
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[BulkheadSandboxEnvironment]:
    if why := KNOWN.get(request.node.originalname):
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))
    await BulkheadSandboxEnvironment.task_init("self_check", None)
    environments = await BulkheadSandboxEnvironment.sample_init("self_check", None, {})
    environment = environments["default"]
    assert isinstance(environment, BulkheadSandboxEnvironment)
    yield environment
    await BulkheadSandboxEnvironment.sample_cleanup("self_check", None, environments, False)
    await BulkheadSandboxEnvironment.task_cleanup("self_check", None, True)
