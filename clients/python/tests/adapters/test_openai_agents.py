"""The OpenAI Agents SDK's own runner with a sandbox agent."""

from __future__ import annotations

import asyncio
import io
import os
import time
from typing import Any

import pytest

pytest.importorskip("agents")
pytest.importorskip("aiohttp")

import aiohttp  # noqa: E402
from agents import Runner  # noqa: E402
from agents.run import RunConfig  # noqa: E402
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig  # noqa: E402
from agents.sandbox.entries import File  # noqa: E402
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402

from bulkhead_sandbox import Client  # noqa: E402
from bulkhead_sandbox.adapters.openai_agents import sandbox_client  # noqa: E402


def names() -> set[str]:
    with Client() as client:
        return {s.name for s in client.sandboxes()}


@pytest.mark.parametrize("terminals", [True, False])
def test_an_agent_runs_in_a_sandbox(terminals: bool) -> None:
    wait = {"yield_time_ms": 1500} if terminals else {}
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "cat given.txt; echo $((6*7)) | tee answer.txt", **wait}, call_id="c1")],
            [function_call("exec_command", {"cmd": "id -un; exit 3", **wait}, call_id="c2")],
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(name="worker", model=model, default_manifest=Manifest(entries={"given.txt": File(content=b"given ")}))

    async def work() -> list[str]:
        async with sandbox_client(exec_timeout_s=60, terminals=terminals) as (client, options):
            config = RunConfig(sandbox=SandboxRunConfig(client=client, options=options), tracing_disabled=True)
            result = await Runner.run(agent, "go", run_config=config)
            assert result.final_output == "done"
            return [str(i.output) for i in result.new_items if i.type == "tool_call_output_item"]

    before, began = names(), time.monotonic()
    first, second = asyncio.run(work())
    assert "given 42" in first.replace("given.txt", ""), first
    assert "sandbox" in second, second
    if not terminals:
        assert "exited with code 0" in first and "exited with code 3" in second, (first, second)
        assert time.monotonic() - began < 15  # it does not wait for what has ended
    assert names() == before


def test_files_and_terminals_pass() -> None:
    async def work() -> None:
        async with sandbox_client() as (client, options):
            session = await client.create(options=options)
            try:
                await session.start()
                data = bytes(range(256)) * 40_000
                await session.write("sub dir/ü?#%41.bin", io.BytesIO(data))
                assert (await session.read("sub dir/ü?#%41.bin")).read() == data
                r = await session.exec("head -c 5000000 /dev/zero; echo err >&2; exit 3")
                assert (len(r.stdout), r.stderr, r.exit_code) == (5_000_000, b"err\n", 3)
                u = await session.pty_exec_start("stty size; read x; echo got:$x", tty=True, yield_time_s=0.5)
                pid = u.process_id
                u = await session.pty_write_stdin(session_id=pid, chars="hällo\n", yield_time_s=0.5)
                text = u.output
                for _ in range(40):
                    if "got:hällo".encode() in text:
                        break
                    u = await session.pty_write_stdin(session_id=pid, chars="", yield_time_s=0.25)
                    text += u.output
                assert "got:hällo".encode() in text, text
                assert await session.running()
            finally:
                await client.delete(session)

    asyncio.run(work())


@pytest.mark.skipif(not os.environ.get("SANDBOX_SERVER", "unix:").startswith("unix:"), reason="the daemon has a port of its own")
def test_the_port_is_closed_to_others() -> None:
    async def work() -> None:
        async with sandbox_client() as (client, options):
            at = options.worker_url
            assert at.startswith("http://127.0.0.1:") and options.api_key
            mine = {"Authorization": f"Bearer {options.api_key}"}
            async with aiohttp.ClientSession() as http:
                for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer x"}, {"Sandbox-Tenant": "other"}):
                    async with http.post(f"{at}/v1/sandbox", headers=headers) as r:
                        assert r.status == 401, headers
                for path in ("/v1/sandboxes", "/metrics", "/v1/tokens", "/v1/sandbox/../sandboxes", "/v1/sandbox/%2e%2e/sandboxes", "//v1/sandboxes"):
                    async with http.get(_raw(at + path), headers=mine) as r:
                        assert r.status in (400, 404), (path, r.status, await r.text())
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await http.ws_connect(f"{at}/v1/sandbox/x/pty")
        async with aiohttp.ClientSession() as http:
            with pytest.raises(aiohttp.ClientConnectionError):
                await http.get(at)

    asyncio.run(work())


def _raw(url: str) -> Any:
    from yarl import URL

    return URL(url, encoded=True)
