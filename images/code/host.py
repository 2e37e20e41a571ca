#!/usr/bin/python3 -I
"""The kernel host: starts Jupyter kernels and passes what they say on.

    sandbox-code serve [--standby]          keeps kernels, until it is idle for long
    sandbox-code run [OPTIONS] -- CODE...   runs code; the parts of it are joined
    sandbox-code contexts (list | create | restart | delete) [OPTIONS]

serve listens on a socket of its user alone. The other commands write what they
hear as JSON values, one a line, the last of which has the type "end". When
nothing listens they end with status 69. The end of a command that runs code
interrupts the code.

With --standby serve starts the kernel of Python, says so, and waits for one line
of input with the environment that it is to have, {"env": {...}}. Then it does
what serve does.
"""
import json
import os
import socket
import stat
import sys
import time

FOLDER = os.path.join("/tmp", "sandbox-code-%d" % os.getuid())
SOCKET = os.path.join(FOLDER, "socket")
LIBRARY = "/usr/local/lib/sandbox-code"
NO_HOST = 69
LANGUAGES = ("python", "javascript", "bash")
MOST_CONTEXTS = 16
MOST_PART = 8 << 20  # of one result
MOST_RESULTS = 32 << 20  # of all results of one run
IDLE = 30 * 60
READY = 30  # seconds that a kernel has to answer first
OWN = {
    "MPLCONFIGDIR": "matplotlib", "IPYTHONDIR": "ipython", "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
}
# Beginnings of variables that a kernel reads when it starts and not again.
EARLY = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "HOME", "PATH", "IPYTHON", "JUPYTER", "MPL", "ZMQ", "MALLOC_", "GLIBC_")
DEFAULT = "default-"  # and the language: contexts that need no creation


def emit(value):
    sys.stdout.write(json.dumps(value, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def options(args):
    """--name value pairs up to --, and what follows."""
    out = {"env": []}
    while args and args[0] != "--":
        name = args.pop(0)
        if not name.startswith("--") or not args:
            raise SystemExit("sandbox-code: %s is no option with a value" % name)
        value = args.pop(0)
        if name == "--env":
            out["env"].append(value)
        else:
            out[name[2:]] = value
    return out, args[1:]


def client(op, args):
    given, rest = options(args)
    request = dict(given, op=op, code="".join(rest), cwd=os.getcwd())
    request["env"] = {name: os.environ[name] for name in given["env"] if name in os.environ}
    limit = time.monotonic() + float(given.get("wait", 0))
    while True:
        try:
            held = os.lstat(FOLDER)
            if held.st_uid != os.getuid() or not stat.S_ISDIR(held.st_mode):
                raise OSError("the folder of the socket belongs to another user")
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.connect(SOCKET)
            break
        except OSError:
            if time.monotonic() >= limit:
                sys.stderr.write("sandbox-code: no kernel host runs\n")
                raise SystemExit(NO_HOST)
            time.sleep(0.02)
    link.sendall(json.dumps(request).encode() + b"\n")
    while True:
        data = link.recv(1 << 16)
        if not data:
            return
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def serve(standby=False):
    import asyncio

    sys.path.insert(0, LIBRARY)
    os.umask(0o077)
    try:
        os.mkdir(FOLDER, 0o700)
    except FileExistsError:
        held = os.lstat(FOLDER)
        if held.st_uid != os.getuid() or not stat.S_ISDIR(held.st_mode):
            raise SystemExit("sandbox-code: %s belongs to another user" % FOLDER)
    for folder in OWN.values():
        os.makedirs(os.path.join(FOLDER, folder), exist_ok=True)
    import shutil

    fonts = os.path.join(LIBRARY, "matplotlib")
    for name in os.listdir(fonts):
        if name.startswith("fontlist"):
            shutil.copy(os.path.join(fonts, name), os.path.join(FOLDER, "matplotlib", name))
    os.environ.update(own(os.environ))
    asyncio.run(Host().run(standby))


def own(env):
    """What kernels have in their environment beside env, or instead of it."""
    out = {name: os.path.join(FOLDER, folder) for name, folder in OWN.items()}
    out["PYTHONPATH"] = ":".join(filter(None, [LIBRARY, env.get("PYTHONPATH")]))
    out["PYDEVD_DISABLE_FILE_VALIDATION"] = env.get("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    return out


class Fault(Exception):
    """A request that cannot be carried out, with a stable code."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def failure(name, value, traceback=""):
    return {"type": "error", "error": {"name": name, "value": value, "traceback": traceback}}


def cut(text):
    """The beginning and the end of a text that is too long."""
    return text if len(text) <= 64 << 10 else text[: 32 << 10] + "\n…\n" + text[-(32 << 10):]


class Kernel:
    """A context: one kernel with its variables. Runs take turns."""

    def __init__(self, name, language, cwd):
        import asyncio

        self.name, self.language, self.cwd = name, language, cwd
        self.turn = asyncio.Lock()
        self.starting = asyncio.Lock()
        self.manager = self.client = None
        self.gone = False

    async def start(self):
        async with self.starting:
            if self.manager is not None:
                return
            from jupyter_client.kernelspec import KernelSpecManager
            from jupyter_client.manager import AsyncKernelManager

            specs = KernelSpecManager(kernel_dirs=[os.path.join(LIBRARY, "kernels")], ensure_native_kernel=False)
            # jupyter_client takes the name "python" for its own kernel.
            manager = AsyncKernelManager(kernel_name="sandbox-" + self.language, kernel_spec_manager=specs, transport="ipc")
            manager.ip = os.path.join(FOLDER, "runtime", "k-%s" % os.urandom(6).hex())
            cwd = self.cwd if os.path.isdir(self.cwd) else "/"
            await manager.start_kernel(cwd=cwd, stdout=-3, stderr=-3)
            client = manager.client()
            client.start_channels()
            try:
                await client.wait_for_ready(timeout=READY)
            except BaseException:
                client.stop_channels()
                await manager.shutdown_kernel(now=True)
                raise
            self.manager, self.client = manager, client

    async def stop(self):
        manager, client, self.manager, self.client = self.manager, self.client, None, None
        if client is not None:
            client.stop_channels()
        if manager is not None:
            await manager.shutdown_kernel(now=True)

    def describe(self):
        return {"id": self.name, "language": self.language, "dir": self.cwd}

    async def silently(self, code):
        """Runs code of ours: it counts for nothing and shows nothing."""
        import asyncio

        await asyncio.wait_for(self.client.execute_interactive(code, silent=True, store_history=False, allow_stdin=False, output_hook=lambda m: None), 10)

    def environment(self, env, restore):
        """The code that sets variables, or gives them the values from before."""
        change = {k: (os.environ.get(k) if restore else v) for k, v in env.items()}
        if self.language == "python":
            return "\n".join(
                "__import__('os').environ.pop(%r, None)" % k if v is None else "__import__('os').environ[%r] = %r" % (k, v)
                for k, v in change.items())
        if self.language == "javascript":
            return "\n".join(
                "delete process.env[%s];" % json.dumps(k) if v is None else "process.env[%s] = %s;" % (json.dumps(k), json.dumps(v))
                for k, v in change.items()) + "\nundefined"
        import shlex

        return "\n".join("unset %s" % k if v is None else "export %s=%s" % (k, shlex.quote(v)) for k, v in change.items())


class Host:
    def __init__(self):
        self.kernels = {}
        self.used = time.monotonic()
        self.running = 0

    async def run(self, standby):
        import asyncio

        if standby and not await self.stand_by():
            return
        if os.path.exists(SOCKET):
            probe = socket.socket(socket.AF_UNIX)
            try:
                probe.connect(SOCKET)
                raise SystemExit("sandbox-code: a kernel host runs already")
            except OSError:
                os.unlink(SOCKET)
            finally:
                probe.close()
        self.used = time.monotonic()
        if not standby:
            asyncio.ensure_future(self.warm())
        server = await asyncio.start_unix_server(self.accept, SOCKET, limit=16 << 20)
        emit({"type": "ready"})
        while self.running or time.monotonic() - self.used < IDLE:
            await asyncio.sleep(1)
        server.close()
        for kernel in list(self.kernels.values()):
            await kernel.stop()

    async def stand_by(self):
        """Starts the first kernel and waits for the environment. It reports
        whether one came."""
        import asyncio

        await self.warm()
        emit({"type": "standby"})
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.readline)
        if not line:
            for kernel in self.kernels.values():
                await kernel.stop()
            return False
        env = json.loads(line)["env"]
        env.update(own(env))
        changed = {k: v for k, v in env.items() if os.environ.get(k) != v}
        os.environ.update(changed)
        for kernel in list(self.kernels.values()):
            try:
                if kernel.manager is None:
                    continue
                if any(k.startswith(EARLY) for k in changed) or not await kernel.manager.is_alive():
                    await kernel.stop()
                elif changed:
                    await kernel.silently(kernel.environment(changed, False))
            except Exception:
                await kernel.stop()  # the run that needs it starts it
        return True

    async def warm(self):
        """Has the first kernel start before it is needed."""
        try:
            await self.context({"language": "python", "cwd": os.getcwd()}).start()
        except Exception as e:  # the run that needs it says why
            sys.stderr.write("sandbox-code: %s\n" % e)

    async def accept(self, reader, writer):
        self.running += 1
        try:
            line = await reader.readline()
            if not line:
                return
            try:
                await self.answer(json.loads(line), reader, writer)
                out = {"type": "end"}
            except Fault as e:
                out = {"type": "fault", "code": e.code, "message": str(e)}
            except (ConnectionError, BrokenPipeError):
                return
            except Exception as e:
                out = {"type": "fault", "code": "internal", "message": "%s: %s" % (type(e).__name__, e)}
            await self.send(writer, out)
        except (ConnectionError, BrokenPipeError):
            pass
        finally:
            self.running -= 1
            self.used = time.monotonic()
            writer.close()

    async def send(self, writer, value):
        writer.write(json.dumps(value, ensure_ascii=True).encode() + b"\n")
        await writer.drain()

    async def answer(self, request, reader, writer):
        op = request["op"]
        if op == "run":
            return await self.execute(request, reader, writer)
        if op == "list":
            for kernel in self.kernels.values():
                await self.send(writer, {"type": "context", "context": kernel.describe()})
            return
        if op == "create":
            language = self.language(request)
            self.room()
            name = os.urandom(16).hex()
            self.kernels[name] = kernel = Kernel(name, language, request["cwd"])
            try:
                await kernel.start()
            except BaseException:
                self.kernels.pop(name, None)
                raise
            return await self.send(writer, {"type": "context", "context": kernel.describe()})
        name = request.get("context", "")
        kernel = self.kernels.get(name)
        if kernel is None:
            raise Fault("not_found", "there is no context %s" % json.dumps(name[:64]))
        if op == "restart":
            await kernel.stop()
            await kernel.start()
            return await self.send(writer, {"type": "context", "context": kernel.describe()})
        if op == "delete":
            kernel.gone = True
            self.kernels.pop(name, None)
            return await kernel.stop()
        raise Fault("validation", "there is no operation %s" % json.dumps(str(op)[:64]))

    def language(self, request):
        language = request.get("language") or "python"
        if language not in LANGUAGES:
            raise Fault("validation", "there is no kernel of %s; there are %s" % (json.dumps(language[:64]), ", ".join(LANGUAGES)))
        return language

    def room(self):
        if len(self.kernels) >= MOST_CONTEXTS:
            raise Fault("busy", "there are %d contexts already; delete one" % MOST_CONTEXTS)

    def context(self, request):
        """The context of a run: the one that is named, or the default of its language."""
        name = request.get("context")
        if name and name in self.kernels:
            return self.kernels[name]
        if name and not name.startswith(DEFAULT):
            raise Fault("not_found", "there is no context %s; the kernel host may have been started anew" % json.dumps(name[:64]))
        language = self.language({"language": name[len(DEFAULT):]} if name else request)
        name = DEFAULT + language
        if name not in self.kernels:
            self.room()
            self.kernels[name] = Kernel(name, language, request["cwd"])
        return self.kernels[name]

    async def execute(self, request, reader, writer):
        import asyncio

        kernel = self.context(request)
        work = asyncio.ensure_future(self.turn(kernel, request, writer))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()  # the caller has closed the connection
        gone.cancel()
        return await work

    async def turn(self, kernel, request, writer):
        import asyncio

        async with kernel.turn:
            if kernel.gone:
                raise Fault("not_found", "the context was deleted")
            fresh = kernel.manager is None
            await kernel.start()
            run = Run(kernel, request, writer, self.send)
            try:
                await run.execute()
            except asyncio.CancelledError:
                await asyncio.shield(run.interrupt())
                raise ConnectionError
            finally:
                await asyncio.shield(run.settle())
            return fresh


class Run:
    """One run of code in a kernel."""

    def __init__(self, kernel, request, writer, send):
        self.kernel, self.request, self.writer, self.forward = kernel, request, writer, send
        self.text, self.results, self.dropped = 0, 0, 0
        self.most = int(request.get("most-output") or 1 << 20)
        self.idle = False
        self.message = None
        self.interrupting = False

    async def send(self, value):
        await self.forward(self.writer, value)

    async def execute(self):
        import asyncio
        import queue

        kernel, env = self.kernel, self.request["env"]
        limit = float(self.request.get("timeout") or 0)
        if env:
            await kernel.silently(kernel.environment(env, False))
        end = time.monotonic() + limit if limit > 0 else None
        self.message = kernel.client.execute(self.request["code"], store_history=True, allow_stdin=False, stop_on_error=True)
        manager, client = kernel.manager, kernel.client
        while not self.idle:
            if end is not None and time.monotonic() >= end:
                await self.send({"type": "timeout"})
                end = None
                if not await self.interrupt():
                    return
                continue
            wait = 0.5 if end is None else max(0.0, min(0.5, end - time.monotonic()))
            try:
                message = await client.get_iopub_msg(timeout=wait)
            except queue.Empty:
                if kernel.manager is not manager:
                    raise Fault("ended", "the context was restarted or deleted while the code ran")
                if not await manager.is_alive():
                    return await self.died(manager)
                continue
            await self.take(message)
        if self.dropped:
            await self.send({"type": "truncated", "dropped": self.dropped})

    async def died(self, manager):
        status = manager.provisioner.process.returncode if manager.provisioner and manager.provisioner.process else None
        why = "exit status %s" % status if status is None or status >= 0 else "signal %d" % -status
        await self.kernel.stop()
        self.idle = True
        await self.send(failure("KernelDied", "the kernel ended with %s; the next run starts a new one, without the variables of this one" % why))

    async def interrupt(self):
        """Interrupts the code, and ends the kernel where that does not help. It
        reports whether the kernel is idle."""
        import asyncio
        import queue

        kernel = self.kernel
        if self.message is None or self.idle or kernel.manager is None:
            return True
        for wait in (3.0, 3.0):
            await kernel.manager.interrupt_kernel()
            end = time.monotonic() + wait
            while not self.idle and time.monotonic() < end:
                try:
                    message = await kernel.client.get_iopub_msg(timeout=0.1)
                except queue.Empty:
                    continue
                try:
                    await self.take(message)
                except ConnectionError:
                    pass
            if self.idle:
                return True
        await kernel.stop()
        self.idle = True
        try:
            await self.send(failure("KernelDied", "the code did not stop when it was interrupted, so its kernel was ended; the next run starts a new one, without the variables of this one"))
        except ConnectionError:
            pass
        return False

    async def settle(self):
        if self.request["env"] and self.kernel.client is not None:
            try:
                await self.kernel.silently(self.kernel.environment(self.request["env"], True))
            except Exception:
                await self.kernel.stop()

    async def take(self, message):
        if message["parent_header"].get("msg_id") != self.message:
            return
        kind, content = message["msg_type"], message["content"]
        if kind == "status":
            self.idle = content["execution_state"] == "idle"
        elif kind == "execute_input":
            await self.send({"type": "count", "executionCount": content["execution_count"]})
        elif kind == "stream":
            await self.stream(content["name"], content["text"])
        elif kind in ("display_data", "execute_result"):
            await self.result(content["data"], kind == "execute_result")
        elif kind == "error":
            await self.send(failure(cut(content["ename"]), cut(content["evalue"]), cut("\n".join(content["traceback"]))))

    async def stream(self, name, text):
        room = self.most - self.text
        self.text += min(len(text), max(room, 0))
        if len(text) > room:
            self.dropped += len(text) - max(room, 0)
            text = text[: max(room, 0)]
        for at in range(0, len(text), 32 << 10):
            await self.send({"type": name if name == "stderr" else "stdout", "text": text[at : at + (32 << 10)]})

    async def result(self, data, main):
        out, omitted = {}, []
        for kind, value in data.items():
            name = NAMES.get(kind)
            if name is None:
                name, into = kind, out.setdefault("extra", {})
            else:
                into = out
            if name not in ("json", "chart", "data", "extra") and isinstance(value, list):
                value = "".join(value)
            size = len(value) if isinstance(value, str) else len(json.dumps(value))
            if size > MOST_PART or self.results + size > MOST_RESULTS:
                omitted.append(kind)
                continue
            self.results += size
            into[name] = value.strip() if kind in ("image/png", "image/jpeg") and isinstance(value, str) else value
        if omitted:
            out["omitted"] = omitted
        if main:
            out["main"] = True
        await self.send({"type": "result", "result": out})


NAMES = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
    "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
    "application/javascript": "javascript", "application/vnd.sandbox.chart+json": "chart", "application/vnd.sandbox.data+json": "data",
}


def main(args):
    if args in (["serve"], ["serve", "--standby"]):
        return serve(len(args) > 1)
    if args[:1] == ["run"]:
        return client("run", args[1:])
    if args[:1] == ["contexts"] and args[1:2] and args[1] in ("list", "create", "restart", "delete"):
        return client(args[1], args[2:])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        raise SystemExit(130)
