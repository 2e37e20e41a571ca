"""The vectors that every SDK passes, with both surfaces."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Daemon

import vector_runner
from bulkhead_sandbox import AsyncClient, AsyncSandbox, Client, Sandbox

HERE = Path(__file__).resolve().parent
VECTORS = Path(os.environ.get("SANDBOX_VECTORS") or HERE.parent.parent / "vectors")
PROVIDER = os.environ.get("SANDBOX_VECTORS_PROVIDER", "local")


def load(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def synchronous_runner() -> types.ModuleType:
    generate = load("generate", HERE.parent / "scripts" / "generate.py")
    m = types.ModuleType("vector_runner_sync")
    sys.modules[m.__name__] = m
    exec(compile(generate.synchronous(Path(vector_runner.__file__).read_text()), m.__name__, "exec"), m.__dict__)
    return m


def files() -> list[Path]:
    return sorted(p for p in VECTORS.glob("*.json") if p.name != "daemon.json")


def requirements(value: Any) -> set[str]:
    needs = value.get("requires", [])
    return {needs} if isinstance(needs, str) else set(needs)


@pytest.fixture(scope="module")
def vector_daemon(home: Path) -> Iterator[Daemon]:
    config = json.loads((VECTORS / "daemon.json").read_text())
    config.setdefault("agents", {}).setdefault("defaults", {}).setdefault("sandbox", {})["provider"] = PROVIDER
    settings = home / "vectors.json"
    settings.write_text(json.dumps(config))
    d = Daemon(home / "v", settings)
    yield d
    d.end()


HAVE = {PROVIDER} | ({"code"} if PROVIDER == "docker" and os.environ.get("SANDBOX_TEST_CODE") else set())


@pytest.mark.skipif(not VECTORS.is_dir(), reason=f"there are no vectors at {VECTORS}")
@pytest.mark.parametrize("surface", ["sync", "async"])
@pytest.mark.parametrize("file", files(), ids=lambda p: p.stem)
def test_vectors(vector_daemon: Daemon, file: Path, surface: str) -> None:
    vector = json.loads(file.read_text())
    if lacks := requirements(vector) - HAVE:
        pytest.skip(f"it requires {sorted(lacks)}")
    failures: list[str] = []
    ran = 0
    if surface == "async":

        async def go() -> None:
            nonlocal ran
            async with AsyncClient(vector_daemon.url) as c:
                sb = await AsyncSandbox.create(f"vector-{uuid.uuid4().hex[:12]}", client=c, **vector.get("sandbox", {}))
                for case in vector["cases"]:
                    if requirements(case) - HAVE:
                        continue
                    try:
                        await asyncio.wait_for(vector_runner.run_case(c, sb, case), 60)
                        ran += 1
                    except Exception as e:
                        failures.append(f"{case['name']}: {type(e).__name__}: {e}")
                await sb.remove(force=True, workspace=True)

        asyncio.run(go())
    else:
        runner = synchronous_runner()
        with Client(vector_daemon.url) as c:
            sb = Sandbox(f"vector-{uuid.uuid4().hex[:12]}", client=c, **vector.get("sandbox", {}))
            for case in vector["cases"]:
                if requirements(case) - HAVE:
                    continue
                try:
                    runner.run_case(c, sb, case)
                    ran += 1
                except Exception as e:
                    failures.append(f"{case['name']}: {type(e).__name__}: {e}")
            sb.remove(force=True, workspace=True)
    assert not failures, "\n" + "\n".join(failures)
    assert ran, "no case of the file could be run"
