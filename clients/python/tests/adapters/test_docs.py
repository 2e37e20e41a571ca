"""The programs of ADAPTERS.md, as they stand there."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "ADAPTERS.md"

MODELS = {
    "inspect_ai": """
from inspect_ai.model import ModelOutput, ModelUsage, get_model
outputs = [
    ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "ls -S | head -1"}),
    ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "b.txt"}),
]
for o in outputs:
    o.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
model = get_model("mockllm/model", custom_outputs=outputs)
""",
    "deepagents": """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
class Model(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"
    def bind_tools(self, tools, **_):
        return self
    def _generate(self, messages, stop=None, run_manager=None, **_):
        calls = [("write_file", {"file_path": "/workspace/hello.py", "content": "print(6 * 7)"}), ("execute", {"command": "python3 hello.py"})]
        said = [m for m in messages if isinstance(m, AIMessage)]
        if len(said) < len(calls):
            name, args = calls[len(said)]
            m = AIMessage("", tool_calls=[{"name": name, "args": args, "id": str(len(said)), "type": "tool_call"}])
        else:
            m = AIMessage("It says " + str(messages[-1].content).split()[0])
        return ChatResult(generations=[ChatGeneration(message=m)])
model = Model()
""",
    "agents": """
from agents.testing import ScriptedModel, assistant_message, function_call
model = ScriptedModel([[function_call("exec_command", {"cmd": "echo $((6*7))"}, call_id="c")], [assistant_message("42")]])
""",
    "smolagents": """
from smolagents import Model as Base
from smolagents.models import ChatMessage, MessageRole
class Model(Base):
    def generate(self, messages, **_):
        return ChatMessage(role=MessageRole.ASSISTANT, content="Thought: multiply.\\n<code>\\nfinal_answer(6 * 7)\\n</code>")
model = Model()
""",
}
WANT = {"inspect_ai": "b.txt", "deepagents": "It says 42", "agents": "42", "smolagents": "42"}


@pytest.mark.parametrize("framework", MODELS)
def test_a_program_of_the_page(framework: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    programs = [p for p in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S) if re.search(rf"^from {framework} import", p, re.M)]
    assert len(programs) == 1, programs
    (tmp_path / "my_model.py").write_text(MODELS[framework])
    (tmp_path / "program.py").write_text(programs[0])
    env = {**os.environ, "INSPECT_DISPLAY": "none", "INSPECT_LOG_DIR": str(tmp_path / "logs"), "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().splitlines()[-1] == WANT[framework], done.stdout + done.stderr
