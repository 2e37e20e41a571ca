"""The session of clients/transcript through the adapters that have files and commands."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from bulkhead_sandbox import Sandbox

SESSION = json.loads((Path(__file__).parents[3] / "transcript" / "session.json").read_text(encoding="utf-8"))
ROOT = "/workspace"


def inside(path: str) -> str:
    return ROOT if path in ("", ".") else f"{ROOT}/{path}"


def below(path: str) -> str:
    return path.removeprefix(ROOT + "/")


class Deepagents:
    def __init__(self, backend: Any) -> None:
        self.b = backend

    async def call(self, tool: str, **args: Any) -> Any:
        return await getattr(self.b, "a" + tool)(**args)

    async def read(self, path: str, offset: int = 1, limit: int = 2000) -> dict[str, Any]:
        r = await self.call("read", file_path=inside(path), offset=offset - 1, limit=limit)
        return {"failed": True} if r.error else {"lines": r.file_data["content"].split("\n")}

    async def write(self, path: str, content: str) -> dict[str, Any]:
        return {"failed": bool((await self.call("write", file_path=inside(path), content=content)).error)}

    async def edit(self, path: str, old: str, new: str, all: bool = False) -> dict[str, Any]:
        return {"failed": bool((await self.call("edit", file_path=inside(path), old_string=old, new_string=new, replace_all=all)).error)}

    async def grep(self, pattern: str, path: str = ".", glob: str | None = None) -> dict[str, Any]:
        r = await self.call("grep", pattern=pattern, path=inside(path), glob=glob)
        assert not r.truncated
        found = [{"path": below(m["path"]), "line": m["line"], "text": m["text"]} for m in r.matches or []]
        return {"failed": True} if r.error else {"matches": sorted(found, key=lambda m: (m["path"], m["line"]))}

    async def glob(self, pattern: str, path: str = ".") -> dict[str, Any]:
        # Without a slash the framework looks at any depth, and with one in front only there.
        r = await self.call("glob", pattern=pattern if "/" in pattern else "/" + pattern, path=inside(path))
        return {"failed": True} if r.error else {"paths": sorted(below(m["path"]) for m in r.matches)}

    async def list(self, path: str) -> dict[str, Any]:
        r = await self.call("ls", path=inside(path))
        entries = [{"name": e["path"].rsplit("/", 1)[-1], "type": "dir" if e["is_dir"] else "file"} for e in r.entries or []]
        return {"failed": True} if r.error else {"entries": sorted(entries, key=lambda e: e["name"])}

    async def shell(self, command: str) -> dict[str, Any]:
        r = await self.call("execute", command=command)
        return {"exit_code": r.exit_code, "output": r.output}


class DeepagentsSync(Deepagents):
    async def call(self, tool: str, **args: Any) -> Any:
        return getattr(self.b, tool)(**args)


class Inspect:
    def __init__(self, environment: Any) -> None:
        self.e = environment

    async def read(self, path: str, offset: int = 1, limit: int = 2000) -> dict[str, Any]:
        try:
            text = await self.e.read_file(path)
        except OSError:
            return {"failed": True}
        return {"lines": text.removesuffix("\n").split("\n")[offset - 1 :][:limit]}

    async def write(self, path: str, content: str) -> dict[str, Any]:
        await self.e.write_file(path, content)
        return {"failed": False}

    async def edit(self, path: str, old: str, new: str, all: bool = False) -> dict[str, Any]:
        try:
            text = await self.e.read_file(path)
        except OSError:
            return {"failed": True}
        if text.count(old) != 1 and not (all and old in text):
            return {"failed": True}
        await self.e.write_file(path, text.replace(old, new))
        return {"failed": False}

    async def grep(self, pattern: str, path: str = ".", glob: str | None = None) -> dict[str, Any]:
        r = await self.e.exec(["grep", "-rnFHZI", *(["--include", glob] if glob else []), "-e", pattern, "--", path])
        found = []
        for line in r.stdout.splitlines():
            name, _, rest = line.partition("\0")
            number, _, text = rest.partition(":")
            found.append({"path": name.removeprefix("./"), "line": int(number), "text": text})
        return {"matches": sorted(found, key=lambda m: (m["path"], m["line"]))}

    async def glob(self, pattern: str, path: str = ".") -> dict[str, Any]:
        script = "import glob,os,sys; [print(n) for n in sorted(os.path.normpath(p) for p in glob.glob(os.path.join(sys.argv[2], sys.argv[1]), recursive=True) if os.path.isfile(p))]"
        r = await self.e.exec(["python3", "-c", script, pattern, path])
        return {"paths": r.stdout.splitlines()}

    async def list(self, path: str) -> dict[str, Any]:
        r = await self.e.exec(["sh", "-c", f"LC_ALL=C ls -1p {shlex.quote(path)}"])
        return {"entries": [{"name": n.rstrip("/"), "type": "dir" if n.endswith("/") else "file"} for n in r.stdout.splitlines()]}

    async def shell(self, command: str) -> dict[str, Any]:
        r = await self.e.exec(["bash", "-c", command])
        return {"exit_code": r.returncode, "stdout": r.stdout, "output": r.stdout + r.stderr}


async def replay(tools: Any) -> int:
    for path, content in SESSION["start"].items():
        assert not (await tools.write(path, content))["failed"]
    wrong = []
    for i, call in enumerate(SESSION["calls"]):
        tool, expect = call["tool"], dict(call["expect"])
        got = await getattr(tools, "shell" if tool == "test" else tool)(**call["args"])
        for text in expect.pop("contains", []):
            if text not in got["output"]:
                wrong.append((i, call["args"], text, got))
        if "stdout" in expect and "stdout" not in got:
            if (out := expect.pop("stdout")) not in got["output"]:
                wrong.append((i, call["args"], out, got))
        if any(got.get(k) != v for k, v in expect.items()):
            wrong.append((i, call, got))
    assert not wrong, wrong[:3]
    tree = {}
    r = await tools.shell("find . -type f -not -path '*/__pycache__/*' -exec sha256sum {} +")
    for line in r["output"].splitlines():
        digest, _, name = line.partition("  ")
        tree[name.removeprefix("./")] = digest
    assert tree == SESSION["tree"]
    return len(SESSION["calls"])


def test_through_deepagents() -> None:
    pytest.importorskip("deepagents")
    from bulkhead_sandbox.adapters.deepagents import SandboxBackend

    for kind in (Deepagents, DeepagentsSync):
        with Sandbox() as sb:
            assert asyncio.run(replay(kind(SandboxBackend(sb)))) >= 200


def test_through_inspect() -> None:
    pytest.importorskip("inspect_ai")
    from bulkhead_sandbox.adapters.inspect_ai import BulkheadSandboxEnvironment as Environment

    async def work() -> int:
        await Environment.task_init("transcript", None)
        environments = await Environment.sample_init("transcript", None, {})
        try:
            return await replay(Inspect(environments["default"]))
        finally:
            await Environment.sample_cleanup("transcript", None, environments, False)
            await Environment.task_cleanup("transcript", None, True)

    assert asyncio.run(work()) >= 200
