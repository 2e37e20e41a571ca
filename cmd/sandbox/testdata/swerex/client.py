# Drives a daemon with the client of swe-rex: SWEREX_HOST is the address of the runtime,
# SWEREX_TOKEN its token, OTHER_TOKEN that of another tenant. Each step prints a line;
# the exit status is 1 when one has failed.
import asyncio
import logging
import os
import pathlib
import sys
import tempfile

from swerex.deployment.remote import RemoteDeployment
from swerex.exceptions import (
    BashIncorrectSyntaxError, CommandTimeoutError, NoExitCodeError, NonZeroExitCodeError, SessionDoesNotExistError,
    SessionExistsError, SwerexException)
from swerex.runtime.abstract import (
    BashAction, BashInterruptAction, CloseBashSessionRequest, Command, CreateBashSessionRequest, ReadFileRequest,
    UploadRequest, WriteFileRequest)

HOST, TOKEN, OTHER = os.environ["SWEREX_HOST"], os.environ["SWEREX_TOKEN"], os.environ["OTHER_TOKEN"]
ROOT = HOST.split("/swerex/")[0]
logging.disable(logging.CRITICAL)
failed = 0


async def step(name, fn):
    global failed
    try:
        print("\nok", name, await fn() or "", flush=True)
    except Exception as e:  # each step is to run
        failed += 1
        print("\nFAIL", name, type(e).__name__, e, flush=True)


async def refused(kind, what, *words):
    try:
        out = await what
    except kind as e:
        assert all(w in str(e) for w in words), f"{e} has not {words}"
        return e
    raise AssertionError(f"{out!r} instead of {kind.__name__}")


def same(got, want):
    assert got == want, f"{got!r}, not {want!r}"


async def main():
    d = RemoteDeployment(host=HOST, auth_token=TOKEN, timeout=20)
    await d.start()
    r = d.runtime

    def act(command, **more):
        return r.run_in_session(BashAction(command=command, **more))

    async def alive():
        await r.wait_until_alive(timeout=30)
        bad = RemoteDeployment(host=HOST, auth_token="sbx_wrong", timeout=20)
        await bad.start()
        answer = await bad.is_alive()
        assert not answer and "401" in answer.message, answer

    async def sessions():
        await refused(SessionDoesNotExistError, act("true"), "default")
        same((await r.create_session(CreateBashSessionRequest())).output, "")
        await refused(SessionExistsError, r.create_session(CreateBashSessionRequest()), "already exists")

    async def commands():
        same((await act("echo hi")).model_dump(), {
            "output": "hi\n", "exit_code": 0, "failure_reason": "", "expect_string": "SHELLPS1PREFIX", "session_type": "bash"})
        same((await act("echo out; echo err >&2; printf 'a\\nb'")).output, "out\nerr\na\nb")
        await act("cd /tmp; X=kept; f() { echo f $1; }; export Y=2")
        same((await act("pwd; echo $X; f 1; printenv Y")).output, "/tmp\nkept\nf 1\n2\n")
        same((await act("cat <<'E'\nline ü\nE\necho \\\n two\n# comment")).output, "line ü\ntwo\n")
        same((await act("")).exit_code, 0)
        same((await act("printf '\\033[31mred\\033[0m\\r\\n\\377'")).output, "red\n\\xff")

    async def codes():
        e = await refused(NonZeroExitCodeError, act("echo why; (exit 3)", error_msg="it broke"), "it broke", "exit code 3", "why")
        assert isinstance(e, RuntimeError)
        same((await act("(exit 3)", check="silent")).exit_code, 3)
        same((await act("(exit 3)", check="ignore")).exit_code, None)
        same((await act("exit 5", check="silent")).exit_code, 5)
        same((await act("echo $X")).output, "kept\n")

    async def syntax():
        e = await refused(BashIncorrectSyntaxError, act("if then", check="silent"))
        assert "bash_stderr" in e.extra_info, e.extra_info
        same((await act("echo fine")).output, "fine\n")

    async def denied():
        same((await act("rm -rf /", check="silent")).exit_code, 126)
        assert "POLICY.DENY_TOOL" in (await act("rm -rf /", check="ignore")).output
        await refused(NonZeroExitCodeError, act("rm -rf /"), "POLICY.DENY_TOOL")

    async def timeouts():
        e = await refused(CommandTimeoutError, act("echo begun; sleep 100", timeout=1), "timeout after 1")
        same(e.extra_info["output"], "begun\n")
        same((await r.run_in_session(BashInterruptAction())).exit_code, 0)
        same((await act("echo $X; pwd")).output, "kept\n/tmp\n")

    async def interactive():
        code = "while True:\n    x = input('> ')\n    if x == 'quit': break\n    print('got', x)\n"
        await r.write_file(WriteFileRequest(path="/workspace/loop.py", content=code))
        await act("cd /workspace")
        o = await act("python3 -q loop.py", is_interactive_command=True, expect=["> "], timeout=20)
        same((o.output, o.exit_code, o.expect_string), ("", 0, "> "))
        same((await act("one", is_interactive_command=True, expect=["> "], timeout=20)).output, "got one")
        await refused(CommandTimeoutError, act("two", is_interactive_command=True, expect=["never"], timeout=0.5))
        o = await act("three", is_interactive_command=True, expect=["[g]ot three"], timeout=20)
        same(o.expect_string, "[g]ot three")
        o = await act("quit", is_interactive_quit=True, timeout=20)
        same((o.exit_code, o.expect_string), (0, "SHELLPS1PREFIX"))
        same((await act("pwd")).output, "/workspace\n")

    async def expects():
        o = await act("echo ready; sleep 100", expect=["ready"], check="ignore", timeout=20)
        same((o.output, o.exit_code, o.expect_string), ("", None, "ready"))
        await r.run_in_session(BashInterruptAction(timeout=5))
        same((await act("echo again")).output, "again\n")
        await refused(NoExitCodeError, act("echo ready; sleep 100", expect=["ready"], timeout=20))
        await r.run_in_session(BashInterruptAction(timeout=5))
        same((await act("printf x", expect=["never"], timeout=20)).model_dump()["exit_code"], 0)

    async def several():
        await r.write_file(WriteFileRequest(path="/workspace/rc", content="echo sourced\nRC=1\n"))
        o = await r.create_session(CreateBashSessionRequest(session="two", startup_source=["/workspace/rc"]))
        same(o.output, "sourced\n")
        same((await act("echo $RC$X", session="two")).output, "1\n")
        await r.close_session(CloseBashSessionRequest(session="two"))
        await refused(SessionDoesNotExistError, r.close_session(CloseBashSessionRequest(session="two")))

    async def executes():
        o = await r.execute(Command(command=["sh", "-c", "echo out; echo err >&2; exit 4"]))
        same((o.stdout, o.stderr, o.exit_code), ("out\n", "err\n", 4))
        same((await r.execute(Command(command="echo $A | tr b c", shell=True, env={"A": "ab"}))).stdout, "ac\n")
        same((await r.execute(Command(command=["pwd"], cwd="/tmp"))).stdout, "/tmp\n")
        o = await r.execute(Command(command="echo 1; echo 2 >&2", shell=True, merge_output_streams=True))
        same((sorted(o.stdout.split()), o.stderr), (["1", "2"], ""))
        await refused(NonZeroExitCodeError, r.execute(Command(command=["false"], check=True, error_msg="no")), "no: ", "exit code 1")
        await refused(CommandTimeoutError, r.execute(Command(command=["sleep", "100"], timeout=0.5)), "0.5")
        await refused(FileNotFoundError, r.execute(Command(command=["no-such-program"])))
        same((await r.execute(Command(command="printf '\\376'", shell=True))).stdout, "\\xfe")

    async def files():
        await r.write_file(WriteFileRequest(path="a/b ü.txt", content="x\ny ü\n"))
        same((await r.read_file(ReadFileRequest(path="/workspace/a/b ü.txt"))).content, "x\ny ü\n")
        same((await act("cat '/workspace/a/b ü.txt'")).output, "x\ny ü\n")
        await refused(FileNotFoundError, r.read_file(ReadFileRequest(path="none")))
        await refused(PermissionError, r.read_file(ReadFileRequest(path="/etc/shadow")))
        await refused(PermissionError, r.write_file(WriteFileRequest(path="/etc/x", content="")))
        await refused(IsADirectoryError, r.read_file(ReadFileRequest(path="a")))
        await act("printf 'a\\377' >raw")
        await refused(ValueError, r.read_file(ReadFileRequest(path="raw")))
        same((await r.read_file(ReadFileRequest(path="raw", errors="backslashreplace"))).content, "a\\xff")
        same((await r.read_file(ReadFileRequest(path="raw", encoding="latin-1"))).content, "aÿ")

    async def uploads():
        with tempfile.TemporaryDirectory() as folder:
            f = pathlib.Path(folder)
            (f / "sub").mkdir()
            (f / "sub" / "ü.txt").write_text("deep")
            (f / "run.sh").write_text("echo ran\n")
            (f / "run.sh").chmod(0o755)
            (f / "data").write_bytes(bytes(range(256)) * 1000)
            await r.upload(UploadRequest(source_path=str(f), target_path="/workspace/up/tools"))
            await r.upload(UploadRequest(source_path=str(f / "data"), target_path="/workspace/new/data"))
        same((await act("cat /workspace/up/tools/sub/ü.txt; /workspace/up/tools/run.sh")).output, "deepran\n")
        same((await act("cmp /workspace/up/tools/data /workspace/new/data && wc -c </workspace/new/data")).output.strip(), "256000")
        await refused(PermissionError, r.upload(UploadRequest(source_path=__file__, target_path="/etc/x")))

    async def root():
        d = RemoteDeployment(host=ROOT.rpartition(":")[0], port=int(ROOT.rpartition(":")[2]), auth_token=TOKEN, timeout=20)
        await d.start()
        await d.runtime.wait_until_alive(timeout=30)
        same((await d.runtime.execute(Command(command=["cat", "/workspace/raw"]))).exit_code, 1)  # the session default

    async def others():
        d = RemoteDeployment(host=HOST, auth_token=OTHER, timeout=20)
        await d.start()
        await refused(FileNotFoundError, d.runtime.read_file(ReadFileRequest(path="/workspace/raw")))
        await refused(SessionDoesNotExistError, d.runtime.run_in_session(BashAction(command="true")))

    async def close():
        await d.stop()
        await d.start()
        await refused(SessionDoesNotExistError, d.runtime.run_in_session(BashAction(command="true")))
        assert (await d.runtime.read_file(ReadFileRequest(path="/workspace/loop.py"))).content

    for fn in [alive, sessions, commands, codes, syntax, denied, timeouts, interactive, expects, several, executes, files, uploads, root, others, close]:
        await step(fn.__name__, fn)


asyncio.run(main())
sys.exit(1 if failed else 0)
