"""Sandboxes for inspect_ai: ``sandbox="sandbox"`` in a task gives each sample one of its own.

inspect_ai finds this module by the entry point of the package. The daemon is that of
``$SANDBOX_SERVER`` and ``$SANDBOX_TOKEN``, or an embedded one.
"""

from __future__ import annotations

import errno
import logging
import posixpath
import shlex
import uuid
from collections.abc import Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, AsyncIterator, Literal, NoReturn, overload

import anyio
import anyio.lowlevel
from inspect_ai._util.cpu import effective_cpu_count
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    concurrency as throttle,
    sandboxenv,
)
from inspect_ai.util._sandbox.compose import COMPOSE_FILES, DOCKERFILE
from pydantic import BaseModel

from bulkhead_sandbox import AsyncClient, AsyncSandbox, Dropped, Exit, SandboxError, Stderr, Stdout

from ._inspect_config import SandboxConfig, resolve
from ._paths import outside

logger = logging.getLogger(__name__)

LABEL = "inspect_ai"  # of each sandbox that this module makes, by which it is found again

_STDIN = 1 << 20  # the most input of a command in one request
_GRACE = 30  # seconds beyond its time limit after which a command counts as unanswered


class _Run:
    """The client of this process, and what of its sandboxes is there."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.tasks = 0
        self.client: AsyncClient | None = None
        self.sandboxes: dict[str, AsyncSandbox] = {}
        self.lock = anyio.Lock()

    async def connect(self) -> AsyncClient:
        async with self.lock:
            if self.client is None:
                client = AsyncClient()
                try:
                    await client.health()
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await client.aclose()
                    raise
                self.client = client
            return self.client

    async def remove(self, name: str) -> None:
        sandbox = self.sandboxes.get(name)
        if sandbox is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                await sandbox.remove(force=True, workspace=True)
            except SandboxError as e:
                if e.code != "SANDBOX.NOT_FOUND":
                    raise
        self.sandboxes.pop(name, None)

    async def close(self) -> None:
        client, self.client = self.client, None
        self.sandboxes.clear()
        if client is not None:
            with anyio.CancelScope(shield=True):
                await client.aclose()


_run = _Run()


@sandboxenv(name="sandbox")
class BulkheadSandboxEnvironment(SandboxEnvironment):
    """One sandbox as inspect_ai uses it."""

    def __init__(self, sandbox: AsyncSandbox, config: SandboxConfig) -> None:
        super().__init__()
        self.sandbox = sandbox
        """The sandbox itself, for what inspect_ai has no method for."""
        self._config = config
        self._account: set[str] | None = None
        self._workspace: str | None = None

    # Tasks and samples ----------------------------------------------------------

    @classmethod
    def config_files(cls) -> list[str]:
        return [*COMPOSE_FILES, DOCKERFILE]

    @classmethod
    def is_docker_compatible(cls) -> bool:
        return True

    @classmethod
    def default_concurrency(cls) -> int | None:
        # A sandbox that does nothing costs some megabytes; what runs at once is bounded
        # by the commands, of which inspect_ai runs few for each processor.
        return 8 * effective_cpu_count()

    def default_polling_interval(self) -> float:
        return 0.2

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return SandboxConfig.model_validate(config)

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        _run.tasks += 1
        try:
            if not _of_samples(config):
                _resolve(config, {})
            try:
                await _run.connect()
            except SandboxError as e:
                raise PrerequisiteError(f"The sandboxes of task '{task_name}' need a daemon: {e}") from e
        except BaseException:
            _run.tasks -= 1
            if _run.tasks == 0:
                await _run.close()
            raise

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        values = {f"SAMPLE_METADATA_{str(k).replace(' ', '_').upper()}": str(v) for k, v in metadata.items()}
        wanted = _resolve(config, values)
        labels = {LABEL: _run.id, "inspect_ai.task": task_name[:200]}
        if (sample := metadata.get("__sample_id__")) is not None:
            labels["inspect_ai.sample"] = str(sample)[:200]
        client = await _run.connect()
        resources = {k: v for k in ("memory", "disk", "cpus", "processes") if (v := getattr(wanted, k)) is not None}
        sandbox: AsyncSandbox | None = None
        try:
            # What is being made when the sample is cancelled would be there without a
            # name: it is made to its end, and removed then.
            with anyio.CancelScope(shield=True):
                sandbox = await AsyncSandbox.create(
                    client=client,
                    image=wanted.image,
                    preset=wanted.preset,
                    env=wanted.env or None,
                    network=wanted.allowed_domains,
                    limits=resources or None,
                    labels=labels,
                )
                _run.sandboxes[sandbox.name] = sandbox
            environment = cls(sandbox, wanted)
            await anyio.lowlevel.checkpoint()
            if wanted.user is not None:
                await environment._check_user(wanted.user)
            if wanted.working_dir is not None:
                made = await environment.exec(["mkdir", "-p", "--", wanted.working_dir], cwd="/", timeout=60)
                if not made.success:
                    raise ValueError(
                        f"working_dir: {wanted.working_dir} cannot be made: {made.stderr.strip()}; "
                        "use a folder that the image has, or one below /workspace"
                    )
        except SandboxError as e:
            if sandbox is not None:
                await _run.remove(sandbox.name)
            raise RuntimeError(f"A sandbox for task '{task_name}' cannot be made: {e}") from e
        except BaseException:
            if sandbox is not None:
                await _run.remove(sandbox.name)
            raise
        return {"default": environment}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            if isinstance(environment, BulkheadSandboxEnvironment):
                try:
                    await _run.remove(environment.sandbox.name)
                except SandboxError as e:
                    # The end of the task tries again, and says so.
                    logger.warning("The sandbox %s is not removed yet: %s", environment.sandbox.name, e)

    @classmethod
    async def task_cleanup(cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool) -> None:
        _run.tasks = max(_run.tasks - 1, 0)
        if _run.tasks:
            return
        try:
            left = list(_run.sandboxes)
            if not cleanup:
                if left:
                    print(f"\nSandboxes that are left: {', '.join(left)}\nTo remove them: inspect sandbox cleanup sandbox {_run.id}\n")
                return
            failed = []
            for name in left:
                try:
                    await _run.remove(name)
                except SandboxError as e:
                    failed.append(f"{name} ({e})")
            if failed:
                logger.warning("These sandboxes could not be removed: %s", "; ".join(failed))
        finally:
            await _run.close()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove the sandboxes of the run ``id``, the one of that name, or those of all runs."""
        client = AsyncClient()
        try:
            found = 0
            for info in [i async for i in client.sandboxes()]:
                labels: Mapping[str, str] = info.labels or {}
                if LABEL not in labels or (id is not None and id not in (labels[LABEL], info.name)):
                    continue
                await (await client.sandbox(info.name)).remove(force=True, workspace=True)
                print(f"removed {info.name}")
                found += 1
            if not found:
                print("There are no sandboxes of inspect_ai" + (f" of {id}." if id else "."))
        finally:
            await client.aclose()

    # Commands -------------------------------------------------------------------

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is None:
            user = self._config.user
        if user is not None:
            await self._check_user(user)
        data = input.encode() if isinstance(input, str) else input
        cwd = await self._folder(cwd)
        # A command that has run out of time was ended inside, and is not run again: it
        # may have done something. What is tried again is a daemon that does not answer.
        limits: list[int | None] = [timeout]
        if timeout is not None and timeout_retry:
            limits += [min(timeout, 60), min(timeout, 30)]
        for limit in limits:
            try:
                with anyio.fail_after(None if limit is None else limit + _GRACE):
                    async with _turn(concurrency):
                        return await self._exec(list(cmd), data, cwd, env, limit)
            except TimeoutError as e:
                if isinstance(e, _TimedOut):
                    raise
        raise TimeoutError(f"The daemon has not said within {timeout} seconds how the command ended")

    async def _exec(
        self, cmd: list[str], data: bytes | None, cwd: str | None, env: dict[str, str] | None, timeout: int | None
    ) -> ExecResult[str]:
        if data is None or len(data) <= _STDIN:
            return await self._stream(cmd, data, cwd, env, timeout)
        # More than a request holds goes through a file.
        path = f"/tmp/.inspect-input-{uuid.uuid4().hex}"
        try:
            await self.sandbox.files.write(path, data)
        except SandboxError as e:
            _raise(e)
        try:
            return await self._stream(f"{shlex.join(cmd)} <{path}", None, cwd, env, timeout)
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await self.sandbox.files.remove(path)
                except SandboxError as e:
                    logger.warning("The input of a command is left at %s: %s", path, e)

    async def _stream(
        self, command: list[str] | str, data: bytes | None, cwd: str | None, env: dict[str, str] | None, timeout: int | None
    ) -> ExecResult[str]:
        out, err = bytearray(), bytearray()
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        end: Exit | None = None
        try:
            stream = self.sandbox.stream(command, cwd=cwd, env=env, stdin=data, timeout=timeout or None)
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, (Stdout, Stderr)):
                        to = out if isinstance(event, Stdout) else err
                        to += event.data
                        if len(to) > most:  # leaving the stream ends the command
                            raise OutputLimitExceededError(
                                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, bytes(to[:most]).decode("utf-8", "replace")
                            )
                    elif isinstance(event, Dropped):
                        raise SandboxUnavailableError(f"{event.bytes} bytes of the output of the command are lost")
                    elif isinstance(event, Exit):
                        end = event
        except SandboxError as e:
            _raise(e)
        if end is None:
            raise SandboxUnavailableError("The daemon has not said how the command ended")
        stdout, stderr = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        if end.timed_out:
            raise _TimedOut(f"Command timed out after {timeout} seconds" if timeout else "Command timed out", stdout + stderr)
        if end.exit_code == 126 and stderr.startswith("sandbox: cannot execute "):
            raise PermissionError(errno.EACCES, stderr.strip())
        return ExecResult(end.exit_code == 0, end.exit_code, stdout, stderr)

    async def _check_user(self, user: str) -> None:
        """Raise unless commands run as that user anyway: there is no other."""
        if user in ("sandbox", "user"):
            return
        if self._account is None:
            account = await self._stream(["sh", "-c", "id -u; id -un 2>/dev/null"], None, "/", None, 60)
            self._account = set(account.stdout.split())
        if user not in self._account:
            raise SandboxUserUnsupportedError(
                f"The sandbox runs no commands as user '{user}', only as {' or '.join(sorted(self._account))}: leave the user out"
            )

    async def _folder(self, path: str | None) -> str | None:
        """Return where a command runs: relative paths begin at the working folder."""
        path = self._path(path or "")
        if not path or path.startswith("/"):
            return path or None
        if self._workspace is None:
            self._workspace = (await self._stream(["pwd"], None, None, None, 60)).stdout.rstrip("\n")
        return posixpath.join(self._workspace, path)

    # Files ----------------------------------------------------------------------

    def _path(self, path: str) -> str:
        """Return the path inside; a relative one that is left begins at the workspace."""
        return posixpath.join(self._config.working_dir or "", path)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        path, most = self._path(file) or ".", SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        data = bytearray()
        try:
            async with aclosing(self.sandbox.files.read_stream(path)) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > most:
                        raise _too_large()
        except SandboxError as e:
            if outside(e):
                data = bytearray(await self._read_outside(path, file, most))
            else:
                await self._raise_file(e, path, file)
        return data.decode("utf-8") if text else bytes(data)

    async def _read_outside(self, path: str, file: str, most: int) -> bytes:
        """Read a file of the image, which is outside of what the files of a sandbox are.

        Whatever runs inside can read it too, so a command does.
        """
        out, err = bytearray(), bytearray()
        code = 0
        try:
            script = 'if [ -d "$1" ]; then exit 21; elif [ ! -e "$1" ]; then exit 2; elif [ ! -r "$1" ]; then exit 13; fi; exec cat -- "$1"'
            async with aclosing(self.sandbox.stream(["sh", "-c", script, "sh", path], timeout=600)) as events:
                async for event in events:
                    if isinstance(event, Stdout):
                        out += event.data
                        if len(out) > most:
                            raise _too_large()
                    elif isinstance(event, Stderr):
                        err += event.data
                    elif isinstance(event, Dropped):
                        raise SandboxUnavailableError(f"{event.bytes} bytes of {file} are lost")
                    elif isinstance(event, Exit):
                        if event.timed_out:
                            raise TimeoutError(f"reading {file} took too long")
                        code = event.exit_code
        except SandboxError as e:
            _raise(e)
        if code:
            _raise_code(code, file, err.decode("utf-8", "replace").strip())
        return bytes(out)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        path = self._path(file) or "."
        data = contents.encode() if isinstance(contents, str) else contents
        if file.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", file)
        try:
            await self.sandbox.files.write(path, data)
        except SandboxError as e:
            if not outside(e):
                await self._raise_file(e, path, file)
            # A home folder, say: commands can write there, and the folders that the
            # files of a sandbox are do not reach it.
            script = (
                'if [ -d "$1" ]; then exit 21; fi; mkdir -p -- "$(dirname -- "$1")" && [ -w "$(dirname -- "$1")" ] || exit 13; '
                'if [ -e "$1" ] && [ ! -w "$1" ]; then exit 13; fi; exec cat > "$1"'
            )
            result = await self.exec(["sh", "-c", script, "sh", path], input=data, cwd="/", timeout=600, timeout_retry=False)
            if not result.success:
                _raise_code(result.returncode, file, result.stderr.strip(), "; " + e.hint if getattr(e, "hint", None) else "")

    async def _raise_file(self, e: SandboxError, path: str, file: str) -> NoReturn:
        """Raise what inspect_ai has for a refusal of a file."""
        if e.code == "SANDBOX.NOT_FOUND" and e.field == "path":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", file) from e
        if e.code == "SANDBOX.CAPABILITY_BLOCKED":
            raise PermissionError(errno.EACCES, f"Permission denied: {e}", file) from e
        if e.code == "SCHEMA.VALIDATION_FAILED" and e.field == "path":
            kind = None
            try:
                kind = (await self.sandbox.files.stat(path)).type
            except SandboxError:
                pass
            if kind == "dir":
                raise IsADirectoryError(errno.EISDIR, "Is a directory", file) from e
            if kind == "symlink":
                raise OSError(errno.ELOOP, f"Too many levels of symbolic links: {e}", file) from e
            if kind is None:
                raise NotADirectoryError(errno.ENOTDIR, f"Not a directory: {e}", file) from e
        _raise(e)

    # Connecting -----------------------------------------------------------------

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        if user is not None:
            await self._check_user(user)
        try:
            info = await self.sandbox.refresh()
        except SandboxError as e:
            raise ConnectionError(f"The sandbox {self.sandbox.name} is not there: {e}") from e
        if info.status not in ("running", "paused"):
            raise ConnectionError(f"The sandbox {self.sandbox.name} is {info.status}")
        words = ["sandbox"]
        words += ["--server", self.sandbox.client.url]
        for option in ("tenant", "agent", "session"):
            if value := getattr(info, option, None):
                words += [f"--{option}", str(value)]
        return SandboxConnection(type="sandbox", command=shlex.join([*words, "shell"]), container=info.name)


class _TimedOut(TimeoutError):
    """A command was ended inside at its time limit."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        if output:
            self.truncated_output = output


@asynccontextmanager
async def _turn(wanted: bool) -> AsyncIterator[None]:
    """Wait for a turn among the commands, by the limit that inspect_ai has for them."""
    if not wanted:
        yield
        return
    async with throttle("subprocesses", max(effective_cpu_count(), 8)):
        yield


def _of_samples(config: SandboxEnvironmentConfigType | None) -> bool:
    """Whether a file has values of samples, which are not known for the task."""
    if not isinstance(config, str):
        return False
    try:
        with open(config, encoding="utf-8") as f:
            return "SAMPLE_METADATA_" in f.read()
    except OSError:
        return False


def _resolve(config: SandboxEnvironmentConfigType | None, values: Mapping[str, str]) -> SandboxConfig:
    try:
        return resolve(config, values)
    except (ValueError, OSError) as e:
        raise PrerequisiteError(f"The sandbox of this task cannot be had: {e}") from e


def _too_large() -> OutputLimitExceededError:
    return OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)


def _raise_code(code: int, file: str, said: str, more: str = "") -> NoReturn:
    if code == 21:
        raise IsADirectoryError(errno.EISDIR, "Is a directory", file)
    if code == 2:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", file)
    raise PermissionError(errno.EACCES, f"Permission denied: {said}{more}" if said else f"Permission denied{more}", file)


def _raise(e: SandboxError) -> NoReturn:
    """Raise what inspect_ai has for a refusal of the daemon."""
    match e.code:
        case "POLICY.DENY_TOOL" | "SANDBOX.CAPABILITY_BLOCKED" | "SANDBOX.PERMISSION_DENY":
            raise PermissionError(errno.EACCES, str(e)) from e
        case "PROVIDER.TIMEOUT":
            raise TimeoutError(str(e)) from e
        case "SCHEMA.VALIDATION_FAILED":
            raise ValueError(str(e)) from e
        case _:
            raise SandboxUnavailableError(str(e)) from e
