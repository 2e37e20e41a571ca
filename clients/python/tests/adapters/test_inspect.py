"""inspect_ai's own runner with samples in sandboxes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval, eval_async  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import EvalLog  # noqa: E402
from inspect_ai.model import ChatMessageTool, ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.scorer import Score, Target, accuracy, scorer  # noqa: E402
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools  # noqa: E402
from inspect_ai.tool import bash, python, text_editor  # noqa: E402
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxUserUnsupportedError, sandbox  # noqa: E402

from bulkhead_sandbox import Client  # noqa: E402
from bulkhead_sandbox.adapters._inspect_config import SandboxConfig, resolve  # noqa: E402
from bulkhead_sandbox.adapters.inspect_ai import LABEL, BulkheadSandboxEnvironment  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    """Each test removes what it has made."""
    yield
    with Client() as client:
        left = [s.name for s in client.sandboxes() if LABEL in (s.labels or {})]
    assert left == []


def run(task: Task, tmp_path: Path, **options: object) -> EvalLog:
    return eval(task, log_dir=str(tmp_path), display="none", **options)[0]  # type: ignore[arg-type]


def counted(output: ModelOutput) -> ModelOutput:
    """Say how many tokens there are: the mock would fetch a tokenizer to count them."""
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def call(tool: str, **arguments: object) -> ModelOutput:
    return counted(ModelOutput.for_tool_call("mockllm/model", tool, arguments))


def said(log: EvalLog, sample: int = 0) -> list[ChatMessageTool]:
    assert log.samples
    return [m for m in log.samples[sample].messages if isinstance(m, ChatMessageTool)]


@solver
def doing(what: Callable[..., object]) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.metadata["got"] = await what()  # type: ignore[misc]
        return state

    return solve


def in_sandbox(what: Callable[..., object], tmp_path: Path, **options: object) -> object:
    task = Task(dataset=[Sample(input="x")], solver=doing(what), sandbox=options.pop("sandbox", "sandbox"), **options)  # type: ignore[arg-type]
    log = run(task, tmp_path, model="mockllm/model")
    assert log.status == "success", log.error
    assert log.samples
    return log.samples[0].metadata["got"]


@scorer(metrics=[accuracy()])
def file_says():  # type: ignore[no-untyped-def]
    async def score(state: TaskState, target: Target) -> Score:
        text = await sandbox().read_file("answer.txt")
        return Score(value="C" if text.strip() == target.text else "I", answer=text)

    return score


def test_a_model_works_with_tools(tmp_path: Path) -> None:
    steps = [
        call("bash", command="cat in/numbers.txt | sort -n | tail -1 | tee biggest.txt; cat setup.txt; exit 3"),
        call("python", code="n = int(open('biggest.txt').read())\nprint(n * 2)"),
        call("text_editor", command="create", path="/workspace/answer.txt", file_text="answer: 17\n"),
        call("text_editor", command="str_replace", path="/workspace/answer.txt", old_str="answer: 17", new_str="84"),
        call("text_editor", command="view", path="/workspace/answer.txt"),
        call("bash", command="rm -rf --no-preserve-root /"),
        counted(ModelOutput.from_content("mockllm/model", "done")),
    ]
    task = Task(
        dataset=[Sample(input="double the biggest", target="84", files={"in/numbers.txt": "7\n42\n8\n"}, setup="#!/bin/sh\necho set up > setup.txt\n")],
        solver=[use_tools(bash(timeout=30), python(timeout=30), text_editor()), generate()],
        scorer=file_says(),
        sandbox="sandbox",
    )
    log = run(task, tmp_path, model=get_model("mockllm/model", custom_outputs=steps))
    assert log.status == "success", log.error
    first, second, made, replaced, view, denied = said(log)
    assert first.text == "42\nset up\n", first
    assert second.text == "84\n", second
    assert made.error is None and replaced.error is None, (made, replaced)
    assert "84" in view.text, view
    assert denied.error is not None and denied.error.type == "permission" and "POLICY.DENY_TOOL" in denied.error.message, denied
    assert log.results and log.results.scores[0].metrics["accuracy"].value == 1, log.results


def test_twenty_samples_have_sandboxes_of_their_own(tmp_path: Path) -> None:
    names: set[str] = set()

    async def whole() -> object:
        environment = sandbox()
        mine = environment.as_type(BulkheadSandboxEnvironment).sandbox.name
        names.add(mine)
        assert (await environment.exec(["ls"])).stdout == ""
        await environment.write_file("mine", mine)
        await asyncio.sleep(0.5)
        assert await environment.read_file("mine") == mine
        return mine

    task = Task(dataset=[Sample(input=str(i)) for i in range(20)], solver=doing(whole), sandbox="sandbox")
    log = run(task, tmp_path, model="mockllm/model", max_samples=20, max_sandboxes=20)
    assert log.status == "success", log.error
    assert len(names) == 20


def test_sandboxes_of_samples_that_fail_are_removed(tmp_path: Path) -> None:
    async def fail() -> object:
        await sandbox().exec(["true"])
        raise RuntimeError("the sample fails")

    log = run(Task(dataset=[Sample(input=str(i)) for i in range(3)], solver=doing(fail), sandbox="sandbox"), tmp_path, model="mockllm/model")
    assert log.status == "error"
    with Client() as client:
        assert not [s for s in client.sandboxes() if LABEL in (s.labels or {})]


def test_sandboxes_of_samples_that_are_cancelled_are_removed(tmp_path: Path) -> None:
    async def hang() -> object:
        await sandbox().exec(["sleep", "300"])
        return None

    began = time.monotonic()
    task = Task(dataset=[Sample(input=str(i)) for i in range(3)], solver=doing(hang), sandbox="sandbox", time_limit=3)
    log = run(task, tmp_path, model="mockllm/model")
    assert log.samples and all(s.limit and s.limit.type == "time" for s in log.samples), log
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("after", [0.5, 3])
def test_sandboxes_of_an_evaluation_that_is_cancelled_are_removed(after: float, tmp_path: Path) -> None:
    """While sandboxes are being made, and while commands run in them."""

    async def hang() -> object:
        await sandbox().exec(["sleep", "300"])
        return None

    async def work() -> None:
        task = Task(dataset=[Sample(input=str(i)) for i in range(8)], solver=doing(hang), sandbox="sandbox")
        running = asyncio.create_task(eval_async(task, model="mockllm/model", log_dir=str(tmp_path), max_samples=8))
        await asyncio.sleep(after)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(work())


def test_an_image_that_is_not_permitted_is_said(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {a: {image: 'not-permitted:1'}}")

    async def never() -> object:
        raise AssertionError

    task = Task(dataset=[Sample(input="x")], solver=doing(never), sandbox=("sandbox", str(tmp_path / "compose.yaml")))
    log = run(task, tmp_path, model="mockllm/model")
    assert log.error and "daemon.create.images" in log.error.message, log.error


def test_the_cleanup_of_the_command_line_finds_what_was_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def nothing() -> object:
        return None

    log = run(Task(dataset=[Sample(input="x")], solver=doing(nothing), sandbox="sandbox"), tmp_path, model="mockllm/model", sandbox_cleanup=False)
    assert log.status == "success"
    with Client() as client:
        left = [s for s in client.sandboxes() if LABEL in (s.labels or {})]
    assert len(left) == 1
    assert left[0].labels["inspect_ai.task"]
    asyncio.run(BulkheadSandboxEnvironment.cli_cleanup("another run"))
    assert "no sandboxes" in capsys.readouterr().out
    # As a user calls it, which also shows that the framework finds this package by itself.
    out = subprocess.run([sys.executable, "-m", "inspect_ai", "sandbox", "cleanup", "sandbox", left[0].labels[LABEL]], capture_output=True, text=True)
    assert f"removed {left[0].name}" in out.stdout, out


async def refused(kind: type[BaseException], awaitable: object) -> str:
    with pytest.raises(kind) as e:
        await awaitable  # type: ignore[misc]
    return str(e.value)


def test_commands(tmp_path: Path) -> None:
    async def commands() -> object:
        e = sandbox()
        r = await e.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (r.success, r.returncode, r.stdout, r.stderr) == (False, 3, "out\n", "err\n")
        r = await e.exec(["printf", "%s|", "a b", "$HOME", "", "ü"])
        assert r.stdout == "a b|$HOME||ü|"
        r = await e.exec(["nosuchprogram"])
        assert r.returncode == 127 and "nosuchprogram" in r.stderr
        r = await e.exec(["sh", "-c", "printf '\\377\\000é'"])
        assert r.stdout == "\ufffd\x00é"
        # What is written is neither lost nor cut up to the limit, and beyond it is said.
        r = await e.exec(["sh", "-c", "head -c 9000000 /dev/zero | tr '\\0' a"])
        assert r.stdout == "a" * 9_000_000
        with pytest.raises(OutputLimitExceededError) as limit:
            await e.exec(["sh", "-c", "yes"])
        assert "10 MiB" in str(limit.value) and limit.value.truncated_output and limit.value.truncated_output.startswith("y\ny\n")
        assert (await e.exec(["pgrep", "-x", "yes"])).returncode == 1
        with pytest.raises(OutputLimitExceededError):
            await e.exec(["sh", "-c", "yes >&2"])
        # Time.
        began = time.monotonic()
        with pytest.raises(TimeoutError) as late:
            await e.exec(["sh", "-c", "echo before; sleep 977 & sleep 977"], timeout=1)
        assert time.monotonic() - began < 20 and late.value.truncated_output == "before\n"  # type: ignore[attr-defined]
        assert (await e.exec(["pgrep", "-f", "sleep 97[7]"])).returncode == 1
        # Users.
        for user in ("root", "0", "nobody"):
            assert "sandbox" in await refused(SandboxUserUnsupportedError, e.exec(["id"], user=user))
        uid = (await e.exec(["id", "-u"])).stdout.strip()
        for user in ("sandbox", uid):
            assert (await e.exec(["id", "-u"], user=user)).stdout.strip() == uid
        # Folders and input.
        await e.exec(["mkdir", "-p", "a b/c"])
        assert (await e.exec(["pwd"], cwd="a b/c")).stdout == "/workspace/a b/c\n"
        r = await e.exec(["pwd"], cwd="no")
        assert not r.success and "no" in r.stderr
        r = await e.exec(["sh", "-c", "cat; exit 4", "a'b"], input=b"\xff\x00" * (1 << 20))
        assert r.returncode == 4 and len(r.stdout) == 2 << 20
        assert (await e.exec(["sh", "-c", "ls -A /tmp"])).stdout == ""
        assert "POLICY.DENY_TOOL" in await refused(PermissionError, e.exec(["rm", "-rf", "/"]))
        # Side by side.
        results: list[ExecResult[str]] = await asyncio.gather(*[e.exec(["sh", "-c", f"sleep 0.1; echo {i}"]) for i in range(10)])
        assert [r.stdout for r in results] == [f"{i}\n" for i in range(10)]
        c = await e.connection()
        assert c.type == "sandbox" and c.command.startswith("sandbox ") and c.command.endswith(" shell"), c
        assert "sandbox" in await refused(SandboxUserUnsupportedError, e.connection(user="root"))
        return None

    in_sandbox(commands, tmp_path)


def test_files(tmp_path: Path) -> None:
    async def files() -> object:
        e = sandbox()
        await e.write_file("made/for/it.txt", "a\r\nb\n\u00e9")
        assert await e.read_file("/workspace/made/for/it.txt") == "a\r\nb\n\u00e9"
        await refused(UnicodeDecodeError, _bad(e))
        assert await e.read_file("bad", text=False) == b"\xff\xfe\x00"
        # Of the image, which no file call reaches.
        assert "root:" in await e.read_file("/etc/passwd")
        await refused(FileNotFoundError, e.read_file("/etc/nosuch"))
        await refused(PermissionError, e.read_file("/etc/shadow"))
        await refused(IsADirectoryError, e.read_file("/usr"))
        assert "Permission denied" in await refused(PermissionError, e.write_file("/etc/x", "x"))
        await refused(PermissionError, e.write_file("/x/y", b"x"))
        await refused(IsADirectoryError, e.write_file("/etc", "x"))
        # Writable, and in none of the folders that file calls reach.
        await e.write_file("/home/sandbox/.config/a.toml", "k = 1\n")
        assert await e.read_file("/home/sandbox/.config/a.toml") == "k = 1\n"
        await e.write_file("/home/sandbox/big", b"\xff" * (3 << 20))
        assert await e.read_file("/home/sandbox/big", text=False) == b"\xff" * (3 << 20)
        # Links, pipes and files in the place of folders.
        await e.exec(["sh", "-c", "ln -s /etc/passwd out; ln -s /etc outd; ln -s loop loop; mkfifo pipe; echo x > file; mkdir dir"])
        for path in ("out", "outd/passwd"):
            await refused(PermissionError, e.read_file(path))
            await refused(PermissionError, e.write_file(path, "x"))
        await refused(OSError, e.read_file("loop"))
        await refused(OSError, e.read_file("pipe"))
        await refused(NotADirectoryError, e.read_file("file/x"))
        await refused(NotADirectoryError, e.write_file("file/x", "x"))
        for path in ("dir", "dir/", ".", "/workspace"):
            await refused(IsADirectoryError, e.read_file(path))
            await refused(IsADirectoryError, e.write_file(path, "x"))
        assert "denyWrite" in await refused(PermissionError, e.write_file(".env", "x"))
        for path in ("../etc/shadow", "/workspace/../etc/shadow"):
            await refused(PermissionError, e.read_file(path))
        # Large ones.
        await e.exec(["truncate", "-s", str((100 << 20) + 1), "huge"])
        with pytest.raises(OutputLimitExceededError) as limit:
            await e.read_file("huge", text=False)
        assert "100 MiB" in str(limit.value)
        await e.exec(["truncate", "-s", str(100 << 20), "huge"])
        assert len(await e.read_file("huge", text=False)) == 100 << 20
        return None

    async def _bad(e: object) -> object:
        await e.write_file("bad", b"\xff\xfe\x00")  # type: ignore[attr-defined]
        return await e.read_file("bad")  # type: ignore[attr-defined]

    in_sandbox(files, tmp_path)


COMPOSE = """
services:
  default:
    image: sandbox:bookworm-slim
    command: tail -f /dev/null
    init: true
    network_mode: none
    working_dir: /workspace/${SAMPLE_METADATA_FOLDER:-f}
    environment: {GREETING: "hello $$USER", NUMBER: 7}
    mem_limit: 200m
    cpus: 0.5
    deploy: {resources: {limits: {pids: 99}}}
    x-default: true
"""


def test_a_compose_file_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(COMPOSE)

    async def look() -> object:
        e = sandbox()
        r = await e.exec(["sh", "-c", "echo $GREETING $NUMBER; pwd; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"])
        await e.write_file("x", "1")
        assert (await e.exec(["cat", "x"])).stdout == "1"
        assert (await e.exec(["cat", "x"], cwd="../f")).stdout == "1"
        return r.stdout.splitlines()

    lines = in_sandbox(look, tmp_path, sandbox=("sandbox", str(tmp_path / "compose.yaml")))
    assert isinstance(lines, list)
    assert lines[:2] == ["hello $USER 7", "/workspace/f"], lines
    assert lines[2:] in ([], [str(200 << 20)]), lines


def test_a_config_of_ours_is_mapped(tmp_path: Path) -> None:
    from inspect_ai.util import SandboxEnvironmentSpec

    async def look() -> object:
        return (await sandbox().exec(["sh", "-c", "echo $A; pwd"])).stdout

    config = SandboxConfig(env={"A": "b"}, working_dir="/workspace/deep/er", allowed_domains=[])
    assert in_sandbox(look, tmp_path, sandbox=SandboxEnvironmentSpec("sandbox", config)) == "b\n/workspace/deep/er\n"
    assert BulkheadSandboxEnvironment.config_deserialize(config.model_dump()) == config
    with pytest.raises(ValueError, match="nosuch"):
        BulkheadSandboxEnvironment.config_deserialize({"nosuch": 1})


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("services: {a: {image: x}, b: {image: y}}", "services: 2 services (a, b)"),
        ("services: {}", "services"),
        ("services: {a: {image: x, ports: ['80:80']}}", "services.a.ports"),
        ("services: {a: {image: x, privileged: true}}", "services.a.privileged"),
        ("services: {a: {image: x, volumes: ['/:/host']}}", "services.a.volumes"),
        ("services: {a: {image: x, network_mode: host}}", "services.a.network_mode"),
        ("services: {a: {image: x, cap_add: [SYS_ADMIN]}}", "services.a.cap_add"),
        ("services: {a: {image: x, command: ./server}}", "services.a.command"),
        ("services: {a: {image: x, nosuch: 1}}", "services.a.nosuch"),
        ("services: {a: {image: x, mem_limit: lots}}", "services.a.mem_limit"),
        ("services: {a: {image: x, deploy: {replicas: 2}}}", "services.a.deploy.replicas"),
        ("services: {a: {image: x, security_opt: ['seccomp=unconfined']}}", "services.a.security_opt"),
        ("services: {a: {image: x, environment: {K: '${NOSUCH_VARIABLE}'}}}", "services.a.environment.K"),
        ("services: {a: {image: x, environment: {K: '${NOSUCH_VARIABLE:?say it}'}}}", "say it"),
        ("services: {a: {image: x}}\nvolumes: {v: {}}", "volumes"),
        ("services: {a: {build: .}}", "Dockerfile:2: RUN"),
        ("services: {a: {build: {context: ., args: {A: b}}}}", "services.a.build.args"),
        ("services: {a: {image: x, x-sandbox: {nosuch: 1}}}", "nosuch"),
        ("[1]", "services"),
    ],
)
def test_what_a_compose_file_asks_for_in_vain_is_refused(text: str, field: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nRUN make\n")
    (tmp_path / "compose.yaml").write_text(text)
    with pytest.raises(ValueError) as e:
        resolve(str(tmp_path / "compose.yaml"), {})
    assert field in str(e.value)


def test_a_dockerfile_is_mapped_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("# comment\nARG V=1\nFROM sandbox:bookworm-slim\nENV A=1 B='two words' \\\n  C=$A\nENV OLD way of it\nWORKDIR /workspace\nWORKDIR sub\nCMD [\"sh\"]\n")
    got = resolve(str(file), {})
    assert got == SandboxConfig(image="sandbox:bookworm-slim", env={"A": "1", "B": "two words", "C": "1", "OLD": "way of it"}, working_dir="/workspace/sub")
    for text, field in (("FROM a AS b\nFROM c\n", "Dockerfile:1: FROM"), ("FROM a\n\nCOPY x y\n", "Dockerfile:3: COPY"), ("ENV A=1\n", "FROM")):
        file.write_text(text)
        with pytest.raises(ValueError) as e:
            resolve(str(file), {})
        assert field in str(e.value)


def test_a_task_whose_sandbox_cannot_be_had_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {web: {image: x}, db: {image: y}}")

    async def never() -> object:
        raise AssertionError

    with pytest.raises(Exception, match="web, db"):
        run(Task(dataset=[Sample(input="x")], solver=doing(never), sandbox=("sandbox", str(tmp_path / "compose.yaml"))), tmp_path, model="mockllm/model")


def test_a_daemon_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> object:
        raise AssertionError

    with monkeypatch.context() as m:
        m.setenv("SANDBOX_SERVER", f"unix:{tmp_path}/nosuch.sock")
        with pytest.raises(Exception, match="need a daemon"):
            run(Task(dataset=[Sample(input="x")], solver=doing(never), sandbox="sandbox"), tmp_path, model="mockllm/model")
    assert os.environ.get("SANDBOX_SERVER", "") != f"unix:{tmp_path}/nosuch.sock"
