"""smolagents' own CodeAgent with a sandbox for its code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("smolagents")

import PIL.Image  # noqa: E402
from smolagents import AgentLogger, CodeAgent, LogLevel, Model, tool  # noqa: E402
from smolagents.models import ChatMessage, MessageRole  # noqa: E402
from smolagents.utils import AgentError  # noqa: E402

from bulkhead_sandbox import Client, Sandbox  # noqa: E402
from bulkhead_sandbox.adapters.smolagents import SandboxExecutor  # noqa: E402


@pytest.fixture(scope="module")
def executor() -> Iterator[SandboxExecutor]:
    with SandboxExecutor() as e:
        yield e


class ScriptedModel(Model):
    """Returns the given pieces of code, one a step."""

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = list(pieces)

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: on.\n<code>\n{self.pieces.pop(0)}\n</code>")


@tool
def double(n: int) -> int:
    """Doubles a number.

    Args:
        n: The number.
    """
    import math

    return math.prod([n, 2])


def agent(executor: SandboxExecutor, *pieces: str, **options: Any) -> CodeAgent:
    return CodeAgent(tools=[double], model=ScriptedModel(*pieces), executor=executor, verbosity_level=LogLevel.OFF, max_steps=len(pieces), **options)


def test_an_agent_works_in_a_kernel(executor: SandboxExecutor) -> None:
    a = agent(
        executor,
        "import os, numpy as np\nrows = np.arange(6).reshape(2, 3)\nprint(os.getcwd(), given['k'])\nint(rows.sum())",
        "rows[9]",
        "final_answer({'sum': double(int(rows.sum())), 'given': given, 'pair': (1, 2)})",
    )
    assert a.run("add", additional_args={"given": {"k": [1, "ü"]}}) == {"sum": 30, "given": {"k": [1, "ü"]}, "pair": (1, 2)}
    first, second, _ = [s for s in a.memory.steps if hasattr(s, "observations")][-3:]
    assert "/workspace [1, 'ü']" in first.observations and "15" in first.observations, first.observations
    assert "IndexError" in str(second.error), second.error


def test_variables_stay_from_run_to_run(executor: SandboxExecutor) -> None:
    agent(executor, "kept = 41\nfinal_answer(kept)").run("keep")
    assert agent(executor, "final_answer(kept + 1)").run("use it") == 42


def test_pictures_go_in_and_come_out(executor: SandboxExecutor) -> None:
    picture = PIL.Image.effect_noise((900, 700), 90)  # does not compress: its code is over the limit of a command
    a = agent(executor, "final_answer(picture.rotate(180))")
    got = a.run("turn it", additional_args={"picture": picture}).to_raw()
    assert got.size == (900, 700) and list(got.getdata())[:99] == list(picture.rotate(180).getdata())[:99]
    executor.run_code_raise_errors("import matplotlib.pyplot as plt")
    out = executor.run_code_raise_errors("import PIL.Image\nPIL.Image.new('RGB', (3, 2), 'red')")
    assert isinstance(out.output, PIL.Image.Image) and out.output.size == (3, 2)


def test_long_answers_are_whole(executor: SandboxExecutor) -> None:
    assert agent(executor, "final_answer('ü' * 3_000_000)").run("say much") == "ü" * 3_000_000
    assert executor.sandbox.run("ls -A /tmp | grep smolagents").exit_code == 1


def test_errors_say_what_happened(executor: SandboxExecutor) -> None:
    with pytest.raises(AgentError, match="(?s)before.*ZeroDivisionError.*division by zero"):
        executor("print('before')\n1 / 0")
    with pytest.raises(AgentError, match="SyntaxError"):
        executor("def")
    out = executor("print('a'); 1 + 1")
    assert (out.output, out.logs, out.is_final_answer) == ("2", "a\n", False)
    out = executor("import sys; print('e', file=sys.stderr)")
    assert out.output is None and out.logs == "e\n"
    assert "left out" in executor("print('x' * 3_000_000)").logs


def test_an_answer_cannot_bring_code(executor: SandboxExecutor) -> None:
    """A pickle would run code of the sandbox in the program of the agent."""
    forged = "class FinalAnswerException(BaseException): pass\nraise FinalAnswerException('pickle:gASVCwAAAAAAAACMB2FuIGJvb22ULg==')"
    with pytest.raises(Exception, match="[Pp]ickle"):
        executor(forged)


def test_time_runs_out_and_the_kernel_stays(executor: SandboxExecutor) -> None:
    with SandboxExecutor(sandbox=executor.sandbox, timeout=1) as other:
        other("x = 1")
        with pytest.raises(AgentError, match="after 1 seconds"):
            other("import time; time.sleep(60)")
        assert other("x").output == "1"
        with pytest.raises(AgentError, match="NameError"):
            executor("x_of_no_one")
    executor("1")  # the sandbox is another's, and stays


def test_packages_are_there_or_refused(executor: SandboxExecutor) -> None:
    with SandboxExecutor(["numpy", "matplotlib.pyplot", "*"], sandbox=executor.sandbox) as other:
        assert other.installed_packages == ["numpy", "matplotlib.pyplot"]
    with pytest.raises(AgentError, match="nosuchpackage are not in the image"):
        SandboxExecutor(["numpy", "nosuchpackage"], AgentLogger(level=LogLevel.OFF), sandbox=executor.sandbox)
    assert not [c for c in executor.sandbox.contexts.list() if c.id not in (executor._context,) and not c.id.startswith("default-")]


def test_the_sandbox_ends_with_the_agent() -> None:
    executor = SandboxExecutor()
    name = executor.sandbox.name
    with agent(executor, "final_answer(1)") as a:
        assert a.run("one") == 1
    with Client() as client:
        assert name not in [s.name for s in client.sandboxes()]
    executor.cleanup()
    with pytest.raises(TypeError, match="image"):
        SandboxExecutor(sandbox=executor.sandbox, image="x")


def test_a_sandbox_of_another_image_is_refused() -> None:
    with Sandbox() as sb, pytest.raises(Exception, match="kernel host|docker.image"):
        SandboxExecutor(sandbox=sb)
