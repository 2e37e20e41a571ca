# Drives a daemon with the sandbox client of openai-agents that takes a URL: SANDBOX_URL
# is its address, CLOUDFLARE_SANDBOX_API_KEY the key, OTHER_KEY that of another tenant.
# Each step prints a line; the exit status is 1 when one has failed. No model is called.
import asyncio
import base64
import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile

from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError
from yarl import URL as Address

from agents import Runner
from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions
from agents.run import RunConfig
from agents.sandbox import (
    ExecTransportError, LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig, WorkspaceReadNotFoundError)
from agents.sandbox.entries import File
from agents.testing import ScriptedModel, assistant_message, function_call

URL, KEY, OTHER = os.environ["SANDBOX_URL"], os.environ["CLOUDFLARE_SANDBOX_API_KEY"], os.environ["OTHER_KEY"]
failed = 0


async def step(name, fn):
    global failed
    try:
        print("ok", name, await fn() or "", flush=True)
    except Exception as e:  # each step is to run
        failed += 1
        print("FAIL", name, type(e).__name__, e, getattr(e, "context", ""), flush=True)


async def refused(kind, fn):
    try:
        await fn
    except kind as e:
        return e
    raise AssertionError("it was not refused")


async def read(session, path):
    return (await session.read(path)).read()


def make(snapshot=None, key=None, entries=None):
    return client.create(
        snapshot=snapshot, manifest=Manifest(entries=entries or {}), options=CloudflareSandboxClientOptions(worker_url=URL, api_key=key))


async def commands():
    r = await s.exec("echo out; echo err >&2; exit 3")
    assert (r.stdout, r.stderr, r.exit_code) == (b"out\n", b"err\n", 3), r
    r = await s.exec("printf", "%s|", "a b", "$HOME", "", shell=False)
    assert r.stdout == b"a b|$HOME||", r
    r = await s.exec("nosuchprogram", shell=False)
    assert r.exit_code == 127 and b"nosuchprogram" in r.stderr, r
    r = await s.exec("head -c 3000000 /dev/zero | tr '\\0' 'ä' | wc -c; printf '\\377\\000é'")
    assert r.stdout == b"3000000\n\xff\x00\xc3\xa9", r
    r = await s.exec("head -c 5000000 /dev/urandom | tee f | base64; sha256sum f | cut -c1-64 >&2")
    assert hashlib.sha256(base64.b64decode(r.stdout)).hexdigest() == r.stderr.decode().strip()
    e = await refused(ExecTransportError, s.exec("sleep 20", timeout=0.5))
    assert "time" in str(e.__cause__), e.__cause__


async def stream():
    # The client collects the output; that it comes while the command runs shows below.
    async with ClientSession(headers={"Authorization": "Bearer " + KEY}) as http:
        body = {"argv": ["sh", "-c", "echo 1; read x < go; echo 2"], "cwd": "/workspace"}
        await s.exec("mkfifo go")
        async with http.post(s._inner._url("exec"), json=body) as r:
            text = b""
            while b"MQo=" not in text:
                text += await r.content.readany()
            assert b"Mgo=" not in text and b"exit" not in text, text
            await s.exec("echo > go; rm go")
            async for chunk in r.content.iter_any():
                text += chunk
            assert b"Mgo=" in text and b'"exit_code":0' in text, text
        # A command ends with its client.
        r = await http.post(s._inner._url("exec"), json={"argv": ["sh", "-c", "echo; exec sleep 987"]})
        await r.content.readline()
        r.close()
    for _ in range(100):
        if (await s.exec("pgrep -f 'sleep 98[7]'")).exit_code == 1:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the command goes on")


async def files():
    await s.write("a.txt", io.StringIO("text ä"))
    assert await read(s, "a.txt") == "text ä".encode()
    data = bytes(range(256)) * 5000
    await s.write("/workspace/sub dir/ü?#%41.bin", io.BytesIO(data))
    assert await read(s, "sub dir/ü?#%41.bin") == data
    assert await s.read_bounded("sub dir/ü?#%41.bin", max_bytes=9) == data[:9]
    await s.write("empty", io.BytesIO(b""))
    assert await read(s, "empty") == b""
    await s.mkdir("d/e", parents=True)
    names = {e.path.rsplit("/", 1)[-1]: e for e in await s.ls(".")}
    assert names["d"].is_dir() and names["a.txt"].size == 7, names
    await s.mv("a.txt", "d/b.txt")
    assert await read(s, "d/b.txt") == "text ä".encode()
    await refused(WorkspaceReadNotFoundError, s.read("a.txt"))
    await s.rm("d", recursive=True)
    await refused(WorkspaceReadNotFoundError, s.read("d/b.txt"))
    e = await refused(Exception, s.read("/etc/passwd"))
    async with ClientSession(headers={"Authorization": "Bearer " + KEY}) as http:
        for path in ["etc/passwd", "workspace/%2e%2e/etc/passwd", "workspace/..%2fetc/passwd", "workspacex", "tmp/x"]:
            for method in ["GET", "PUT"]:
                async with http.request(method, Address(s._inner._url("file/" + path), encoded=True), data=b"x" if method == "PUT" else None) as r:
                    body = await r.json()
                    assert r.status == 403 and body["code"] == "invalid_request", (path, r.status, body)
        await s.exec("ln -s /etc/passwd leads-out")
        async with http.get(s._inner._url("file/workspace/leads-out")) as r:
            assert r.status in (403, 404), (r.status, await r.text())
        await s.exec("rm leads-out")
    return type(e).__name__


async def big():
    data = os.urandom(100_000_000)
    await s.write("big", io.BytesIO(data))
    assert await read(s, "big") == data
    await s.rm("big")


async def archive():
    await s.exec("mkdir -p keep leave && echo 1 > keep/a && echo 2 > leave/b && ln -s a keep/l && chmod 755 keep/a")
    s.register_persist_workspace_skip_path("leave")
    tar = (await s.persist_workspace()).read()
    names = {m.name.rstrip("/") for m in tarfile.open(fileobj=io.BytesIO(tar))}
    assert "keep/a" in names and "keep/l" in names and not any(n.startswith("leave") for n in names), names
    await s.exec("rm -rf keep")
    await s.hydrate_workspace(io.BytesIO(tar))
    r = await s.exec("cat keep/l && test -x keep/a && cat leave/b")
    assert r.stdout == b"1\n2\n", r
    async with ClientSession(headers={"Authorization": "Bearer " + KEY}) as http:
        async with http.post(s._inner._url("hydrate"), data=b"no archive") as r:
            assert r.status == 400, (r.status, await r.text())
        bad = io.BytesIO()
        with tarfile.open(fileobj=bad, mode="w") as t:
            t.addfile(tarfile.TarInfo("../../escape"))
        async with http.post(s._inner._url("hydrate"), data=bad.getvalue()) as r:
            assert r.status == 403, (r.status, await r.text())


async def until(session, pid, text, update):
    out = update.output
    for _ in range(40):
        if text in out:
            return out
        update = await session.pty_write_stdin(session_id=pid, chars="", yield_time_s=0.25)
        out += update.output
    raise AssertionError((text, out))


async def pty():
    u = await s.pty_exec_start("stty size; read x; echo got:$x; read y; echo then:$y", tty=True, yield_time_s=0.5)
    out = await until(s, u.process_id, b"24 80", u)
    u = await s.pty_write_stdin(session_id=u.process_id, chars="hällo\n", yield_time_s=0.3)
    pid = u.process_id
    await until(s, pid, "got:hällo".encode(), u)
    u = await s.pty_write_stdin(session_id=pid, chars="more\n", yield_time_s=0.3)
    await until(s, pid, b"then:more", u)
    u = await s.pty_write_stdin(session_id=pid, chars="exit 7\n", yield_time_s=2)
    assert u.process_id is None and u.exit_code == 7, u
    u = await s.pty_exec_start("sleep 986", tty=True, yield_time_s=0.3)
    assert u.process_id is not None
    await s.pty_terminate_all()
    for _ in range(100):
        if (await s.exec("pgrep -f 'sleep 98[6]'")).exit_code == 1:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("what the terminal ran goes on")


async def frames():
    async with ClientSession(headers={"Authorization": "Bearer " + KEY}) as http:
        async def until(ws, text):
            out = b""
            while text not in out:
                m = await ws.receive(timeout=20)
                if m.type == WSMsgType.BINARY:
                    out += m.data
                elif m.type != WSMsgType.TEXT:
                    raise AssertionError((m, out))
        async with http.ws_connect(s._inner._ws_pty_url(cols=100, rows=30)) as ws:
            assert json.loads((await ws.receive(timeout=20)).data) == {"type": "ready"}
            await ws.send_bytes(b"stty size\n")
            await until(ws, b"30 100")
            await ws.send_str('{"type":"resize","cols":132,"rows":50}')
            await ws.send_bytes(b"stty size\n")
            await until(ws, b"50 132")
            await ws.send_bytes(b"echo \xff | od -c\n")
            await until(ws, b"377")
            await ws.send_str('{"type":"resize","cols":0,"rows":50}')
            last = None
            while (m := await ws.receive(timeout=20)).type in (WSMsgType.BINARY, WSMsgType.TEXT):
                last = m
            assert json.loads(last.data)["type"] == "error", last
        # A client that cannot set headers has its key in the address.
        async with ClientSession() as plain:
            async with plain.ws_connect(s._inner._ws_pty_url() + "&shell=/bin/sh&authorization=Bearer%20" + KEY) as ws:
                await ws.receive(timeout=20)
                await ws.send_bytes(b"echo $0; exit\n")
                await until(ws, b"/bin/sh")
            for query in ["", "&authorization=Bearer%20sbx_no", "&authorization=Bearer%20" + OTHER]:
                e = await refused(WSServerHandshakeError, plain.ws_connect(s._inner._ws_pty_url() + query))
                assert e.status in (401, 404), e
        for query in ["&x=1", "&session=a", "&rows=1"]:
            e = await refused(WSServerHandshakeError, http.ws_connect(s._inner._ws_pty_url() + query))
            assert e.status in (400, 501), e


async def resume():
    state = client.serialize_session_state(s.state)
    await s.write("kept", io.BytesIO(b"1"))
    again = await CloudflareSandboxClient().resume(client.deserialize_session_state(json.loads(json.dumps(state))))
    await again.start()
    assert await again.running() and await read(again, "kept") == b"1"


async def snapshots():
    with tempfile.TemporaryDirectory() as folder:
        one = await make(snapshot=LocalSnapshotSpec(base_path=folder), entries={"in.txt": File(content=b"given")})
        await one.start()
        assert await read(one, "in.txt") == b"given"
        await one.write("made/out.txt", io.BytesIO(b"made"))
        await one.stop()
        state = client.serialize_session_state(one.state)
        await client.delete(one)
        # The sandbox is gone; the client makes it anew from its archive.
        again = await client.resume(client.deserialize_session_state(json.loads(json.dumps(state))))
        assert not await again.running()
        await refused(ExecTransportError, again.exec("true"))
        await again.start()
        assert await read(again, "in.txt") == b"given" and await read(again, "made/out.txt") == b"made"
        await client.delete(again)
        # Another tenant cannot, and gets no sandbox by trying.
        state["sandbox_id"] = s.state.sandbox_id
        os.environ["CLOUDFLARE_SANDBOX_API_KEY"] = OTHER
        theirs = await client.resume(client.deserialize_session_state(state))
        e = await refused(Exception, theirs.start())
        await theirs._inner._close_http()
        os.environ["CLOUDFLARE_SANDBOX_API_KEY"] = KEY
        async with ClientSession(headers={"Authorization": "Bearer " + OTHER}) as http:
            async with http.get(URL + "/v1/sandboxes") as r:
                assert (await r.json())["items"] == [], await r.text()
        return type(e).__name__


async def unsupported():
    e = await refused(Exception, s._inner.mount_bucket(bucket="b", mount_path="data", options={"endpoint": "https://example.com"}))
    assert "not supported" in str(e.context), e.context
    e = await refused(Exception, s._inner.unmount_bucket("data"))
    async with ClientSession(headers={"Authorization": "Bearer " + KEY}) as http:
        for method, path in [("POST", "session"), ("DELETE", "session/a"), ("POST", "tunnel/80"), ("DELETE", "tunnel/80")]:
            async with http.request(method, s._inner._url(path)) as r:
                body = await r.json()
                assert r.status == 501 and body["code"] == "not_supported", (path, r.status, body)
        async with http.post(s._inner._url("exec"), json={"argv": ["true"]}, headers={"Session-Id": "a"}) as r:
            assert r.status == 501
        for body in [b"", b"[]", b'{"argv":[]}', b'{"argv":["true"],"user":"root"}', b'{"argv":[1]}', b'{"argv":["true"],"timeout_ms":-1}', b'{"argv":["a\\u0000"]}']:
            async with http.post(s._inner._url("exec"), data=body) as r:
                answer = await r.json()
                assert r.status == 400 and answer["code"] == "invalid_request", (body, r.status, answer)
        async with http.post(s._inner._url("exec"), data=b'{"argv":["' + b"a" * (2 << 20) + b'"]}') as r:
            assert r.status == 413, r.status


async def tenants():
    other = await make(key=OTHER)
    theirs, mine = other._inner, s._inner
    assert theirs.state.sandbox_id != mine.state.sandbox_id
    for method, path in [("POST", "exec"), ("GET", "file/workspace/kept"), ("PUT", "file/workspace/kept"), ("POST", "persist"), ("POST", "hydrate"), ("DELETE", "")]:
        async with ClientSession(headers={"Authorization": "Bearer " + OTHER}) as http:
            async with http.request(method, mine._url(path).rstrip("/"), data=None if method == "GET" else b'{"argv":["true"]}') as r:
                assert r.status in (404, 410), (path, r.status)
    async with ClientSession(headers={"Authorization": "Bearer " + OTHER}) as http:
        async with http.get(mine._url("running")) as r:
            assert await r.json() == {"running": False}
    for key in ["", "sbx_no"]:
        async with ClientSession(headers={"Authorization": "Bearer " + key} if key else {}) as http:
            async with http.post(mine._url("exec"), json={"argv": ["true"]}) as r:
                assert r.status == 401 and (await r.json())["code"] == "unauthorized", r.status
    assert await s.running() and await read(s, "kept") == b"1"
    await client.delete(other)


async def run_agent():
    model = ScriptedModel([
        [function_call("exec_command", {"cmd": "echo $((6*7)) > answer.txt; cat answer.txt"}, call_id="c1")],
        [assistant_message("done")],
    ])
    agent = SandboxAgent(name="worker", model=model)
    options = CloudflareSandboxClientOptions(worker_url=URL)
    result = await Runner.run(agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client, options=options), tracing_disabled=True))
    outputs = [i.output for i in result.new_items if i.type == "tool_call_output_item"]
    assert result.final_output == "done" and any("42" in str(o) for o in outputs), outputs


async def end():
    await client.delete(s)
    assert not await s.running()
    e = await refused(Exception, s.exec("true"))
    await client.delete(s)
    return type(e).__name__


async def main():
    global client, s
    client = CloudflareSandboxClient(exec_timeout_s=60)
    s = await make(entries={"hello.txt": File(content=b"hello")})
    await step("start", s.start)
    await step("manifest", lambda: read(s, "hello.txt"))
    for fn in [commands, stream, files, big, archive, pty, frames, resume, snapshots, unsupported, tenants, run_agent, end]:
        await step(fn.__name__, fn)
    return failed > 0


sys.exit(asyncio.run(main()))
