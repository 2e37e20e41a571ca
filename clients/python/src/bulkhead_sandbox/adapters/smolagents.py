"""A sandbox as the Python executor of a smolagents ``CodeAgent``.

    with SandboxExecutor() as executor:
        CodeAgent(tools=[], model=model, executor=executor).run("...")
"""

from __future__ import annotations

import base64
import re
import uuid
from io import BytesIO
from typing import Any

import PIL.Image
from smolagents import AgentLogger, LogLevel, Tool
from smolagents.local_python_executor import CodeOutput
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.serialization import SafeSerializer
from smolagents.utils import AgentError

from bulkhead_sandbox import Sandbox, SandboxError

IMAGE = "sandbox-code:bookworm-slim"
"""The image with Python's kernel, which ``daemon.create.images`` has to permit."""

_INLINE = 200_000  # characters of code of this module's own that are run as they are

# Forms of a value, in the order in which the framework's own executors look for them.
_FORMS = ("chart", "data", "html", "javascript", "json_", "latex", "markdown", "pdf", "svg", "text")


class SandboxExecutor(RemotePythonExecutor):
    """Runs the code of an agent in a kernel of a sandbox, whose variables stay.

    It takes a :class:`~bulkhead_sandbox.Sandbox` of an image with a kernel host, or the
    options of one, which is made then and removed by :meth:`cleanup`. The kernel is a
    context of its own, so several executors can share a sandbox.
    """

    def __init__(
        self,
        additional_imports: list[str] | None = None,
        logger: AgentLogger | None = None,
        allow_pickle: bool = False,
        *,
        sandbox: Sandbox | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        if sandbox is not None and options:
            raise TypeError(f"a sandbox and options of another: {', '.join(options)}")
        super().__init__(additional_imports or [], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle)
        self.timeout = timeout
        self._owned = sandbox is None
        self._context: str | None = None
        self._ended = False
        self.sandbox = sandbox if sandbox is not None else Sandbox(**{"image": IMAGE, **options})
        try:
            self._context = self.sandbox.contexts.create(language="python").id
            self.installed_packages = self.install_packages(list(additional_imports or []))
        except BaseException:
            self.cleanup()
            raise

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        logs: list[str] = []
        try:
            run = self.sandbox.run_code(code, context=self._context, timeout=self.timeout, on_event=lambda e: _log(e, logs))
        except SandboxError as e:
            raise AgentError(f"The code was not run: {e}", self.logger) from e
        text = "".join(logs)
        if run.error is not None:
            if run.error.name == self.FINAL_ANSWER_EXCEPTION:
                return CodeOutput(output=self._answer(run.error.value), logs=text, is_final_answer=True)
            trace = re.sub(r"\x1b\[[0-9;]*m", "", run.error.traceback or "")
            late = f" after {self.timeout} seconds" if run.timed_out and self.timeout else ""
            raise AgentError(
                f"{text}\nExecuting code yielded an error{late}:\n{run.error.name}\n{run.error.value}\n{trace}", self.logger
            )
        for result in run.results:
            if result.main:
                return CodeOutput(output=_value(result), logs=text, is_final_answer=False)
        return CodeOutput(output=None, logs=text, is_final_answer=False)

    def _answer(self, value: str) -> Any:
        """Return a final answer, which lies in a file where it is too long for an error."""
        if value.startswith("file:"):
            path = value.removeprefix("file:")
            try:
                value = self.sandbox.files.read(path).decode("utf-8")
                self.sandbox.files.remove(path)
            except SandboxError as e:
                raise AgentError(f"The final answer cannot be read: {e}", self.logger) from e
        return self._deserialize_final_answer(value, self.allow_pickle)

    def send_tools(self, tools: dict[str, Tool]) -> None:
        super().send_tools(tools)
        if "final_answer" in tools:
            # An error says the first part of a long value alone.
            self._run(_LONG_ANSWERS)

    def send_variables(self, variables: dict[str, Any]) -> None:
        if not variables:
            return
        serialized = SafeSerializer.dumps(variables, allow_pickle=self.allow_pickle)
        self._run(f"{SafeSerializer.get_deserializer_code(self.allow_pickle)}\nglobals().update(_deserialize({serialized!r}))\n")

    def _run(self, code: str) -> CodeOutput:
        """Run code that this program has made, through a file where it is long."""
        if len(code) <= _INLINE:
            return self.run_code_raise_errors(code)
        path = f"/tmp/.smolagents-{uuid.uuid4().hex}.py"
        try:
            self.sandbox.files.write(path, code)
            return self.run_code_raise_errors(
                f"with open({path!r}, encoding='utf-8') as _f:\n    _code = _f.read()\n"
                f"import os as _os; _os.remove({path!r})\nexec(compile(_code, 'sent', 'exec'), globals()); del _f, _code, _os\n"
            )
        except SandboxError as e:
            raise AgentError(f"The variables were not sent: {e}", self.logger) from e

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Install those that the sandbox does not have already.

        A sandbox without a network has no index of packages to install from: then the
        error says which of them its image has to hold.
        """
        wanted = [p for p in additional_imports if p != "*"]
        if not wanted:
            return []
        names = {p: re.split(r"[.\[=<>!~ ;]", {"pillow": "PIL"}.get(p, p), maxsplit=1)[0].replace("-", "_") for p in wanted}
        found = self.run_code_raise_errors(
            f"import importlib.util as _u\nprint([n for n, m in {names!r}.items() if _u.find_spec(m) is None])\ndel _u"
        )
        missing = [p for p in wanted if repr(p) in found.logs]
        if missing:
            command = ["python3", "-m", "pip", "install", "--user", "--quiet", "--no-input", "--retries=1", "--disable-pip-version-check", "--break-system-packages"]
            try:
                result = self.sandbox.run([*command, "--", *missing], timeout=600)
            except SandboxError as e:
                raise AgentError(f"The packages {', '.join(missing)} were not installed: {e}", self.logger) from e
            if result.exit_code != 0:
                raise AgentError(
                    f"The packages {', '.join(missing)} are not in the image, and cannot be installed: {result.stderr.strip()[-2000:]}\n"
                    "Name an image that holds them, or open the network to an index of packages.",
                    self.logger,
                )
            self.run_code_raise_errors(
                "import importlib as _i, site as _s\n_s.addsitedir(_s.getusersitepackages()); _i.invalidate_caches()\ndel _i, _s"
            )
        return wanted

    def cleanup(self) -> None:
        """End the kernel, and remove the sandbox that was made for it."""
        if self._ended:
            return
        self._ended = True
        try:
            if self._owned:
                self.sandbox.close()
            elif self._context is not None:
                self.sandbox.contexts.delete(self._context)
        except SandboxError as e:
            if e.code != "SANDBOX.NOT_FOUND":
                self.logger.log_error(f"Error during cleanup: {e}")

    delete = cleanup

    def __enter__(self) -> SandboxExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


# Wraps the tool's own method, which raises the answer as the value of an exception.
_LONG_ANSWERS = """
def _long_answers(forward):
    def put(self, *args, **kwargs):
        try:
            return forward(self, *args, **kwargs)
        except BaseException as e:
            if type(e).__name__ == "FinalAnswerException" and len(e.value) > 60000:
                import uuid
                path = "/tmp/.smolagents-" + uuid.uuid4().hex
                with open(path, "w", encoding="utf-8") as f:
                    f.write(e.value)
                e.value = "file:" + path
                e.args = (e.value,)
            raise
    return put
type(final_answer).forward = _long_answers(type(final_answer).forward)
del _long_answers
"""


def _log(event: Any, logs: list[str]) -> None:
    if event.type in ("stdout", "stderr"):
        logs.append(event.text)
    elif event.type == "truncated":
        logs.append(f"\n[{event.dropped} characters of output were left out]\n")


def _value(result: Any) -> Any:
    for form in ("png", "jpeg"):
        if data := getattr(result, form, None):
            return PIL.Image.open(BytesIO(base64.b64decode(data)))
    for form in _FORMS:
        if (data := getattr(result, form, None)) is not None:
            return data
    omitted = getattr(result, "omitted", None)
    return f"[a value that is too large: {', '.join(omitted)}]" if omitted else None
