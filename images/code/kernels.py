"""The kernels of JavaScript and bash: one process of node or bash each, behind
ipykernel's kernel class, which speaks Jupyter's protocol.

    python3 -m sandbox_kernels bash -f CONNECTION_FILE
"""
import codecs
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

HERE = os.path.dirname(os.path.abspath(__file__))


class Child:
    """A process that runs cells. Its output is passed on while a cell runs."""

    def __init__(self, args, stdin, **more):
        self.process = subprocess.Popen(args, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.decoders = {}
        for name in ("stdout", "stderr"):
            os.set_blocking(getattr(self.process, name).fileno(), False)
            self.decoders[name] = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, name):
        """The bytes that are there; None at the end of the stream."""
        try:
            return getattr(self.process, name).read1(65536) or None
        except BlockingIOError:
            return b""

    def text(self, name, data):
        return self.decoders[name].decode(data)


class Wrapper(Kernel):
    implementation, implementation_version, language_version, banner = "sandbox", "1.0", "", ""
    child = None

    def emit(self, silent, name, text):
        if text and not silent:
            self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})

    def done(self):
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def failed(self, silent, name, value, traceback):
        content = {"ename": name, "evalue": value, "traceback": traceback}
        if not silent:
            self.send_response(self.iopub_socket, "error", content)
        return dict(content, status="error", execution_count=self.execution_count)

    def died(self, silent):
        status = self.child.process.wait()
        self.child = None
        why = "it ended with exit status %d" % status if status >= 0 else "it was ended by signal %d" % -status
        return self.failed(silent, "KernelDied", "%s: %s and starts anew; its variables are lost" % (self.language_info["name"], why), [])

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False):
        if self.child is None:
            self.child = self.launch()
        try:
            return self.evaluate(code, silent)
        except (BrokenPipeError, ConnectionResetError):
            return self.died(silent)

    def do_shutdown(self, restart):
        if self.child is not None:
            self.child.process.kill()
        return {"status": "ok", "restart": restart}


class BashKernel(Wrapper):
    """bash reads lines from a pipe, as an interactive shell, so that a signal
    ends the cell and not the shell. Behind each cell it writes a mark that no
    cell can know to both of its outputs."""

    language_info = {"name": "bash", "mimetype": "text/x-sh", "file_extension": ".sh"}
    language = "bash"

    def launch(self):
        self.cells = tempfile.mkdtemp(prefix="cells-")
        env = dict(os.environ, PS1="", PS2="", PROMPT_COMMAND="", HISTFILE="/dev/null")
        child = Child(["bash", "--norc", "--noprofile", "--noediting", "-i"], subprocess.PIPE, env=env)
        self.child = child
        self.cell("set +o history +H 2>/dev/null; set +m; PS1=; PS2=", True)
        return child

    def evaluate(self, code, silent):
        status = self.cell(code, silent)
        if status is None:
            return self.died(silent)
        if status:
            reason = "interrupted" if status == 130 else "exit status %d" % status
            return self.failed(silent, "KeyboardInterrupt" if status == 130 else "ExitStatus", reason, [reason])
        return self.done()

    def cell(self, code, silent):
        """Runs code and returns its exit status; None when bash has ended."""
        mark = secrets.token_hex(16)
        path = os.path.join(self.cells, "cell")
        with open(path, "w") as f:
            f.write(code + "\n")
        line = "\n. %s </dev/null\n{ printf '%%s %%d\\n' %s $? >&2; printf '%%s\\n' %s; } 2>&2\n" % (path, mark, mark)
        os.write(self.child.process.stdin.fileno(), line.encode())
        pending = {"stdout": b"", "stderr": b""}
        status, ended, token = 130, set(), mark.encode()
        while len(ended) < 2:
            try:
                with selectors.DefaultSelector() as waiting:
                    for name in pending:
                        if name not in ended:
                            waiting.register(getattr(self.child.process, name), selectors.EVENT_READ, name)
                    ready = [key.data for key, _ in waiting.select()]
            except KeyboardInterrupt:
                continue  # bash has had it too, and writes its mark
            for name in ready:
                data = self.child.read(name)
                if data is None:
                    for rest in pending:
                        self.emit(silent, rest, self.child.text(rest, pending[rest]))
                    return None
                text = pending[name] + data
                at = text.find(token)
                if at >= 0 and b"\n" in text[at:]:
                    fields = text[at:].split(b"\n", 1)[0].split()
                    if name == "stderr" and len(fields) > 1 and fields[1].isdigit():
                        status = int(fields[1])
                    ended.add(name)
                    pending[name], text = b"", text[:at]
                elif at >= 0:
                    pending[name], text = text[at:], text[:at]
                else:  # a mark may begin at the end
                    keep = min(len(token) - 1, len(text))
                    while keep and not token.startswith(text[len(text) - keep :]):
                        keep -= 1
                    cut = len(text) - keep
                    pending[name], text = text[cut:], text[:cut]
                self.emit(silent, name, self.child.text(name, text))
        return status


class JavaScriptKernel(Wrapper):
    """node reads cells from a socket, one JSON value a line, and answers there.
    Its standard output needs no mark: node writes to pipes at once, so what a
    cell wrote is there before the answer."""

    language_info = {"name": "javascript", "mimetype": "application/javascript", "file_extension": ".js"}
    language = "javascript"

    def launch(self):
        ours, theirs = socket.socketpair()
        env = dict(os.environ, SANDBOX_CODE_FD=str(theirs.fileno()))
        child = Child(["node", os.path.join(HERE, "repl.js")], subprocess.DEVNULL, env=env, pass_fds=[theirs.fileno()])
        theirs.close()
        child.socket, child.pending = ours, b""
        return child

    def evaluate(self, code, silent):
        self.child.socket.sendall(json.dumps({"code": code}).encode() + b"\n")
        while True:
            try:
                with selectors.DefaultSelector() as waiting:
                    waiting.register(self.child.socket, selectors.EVENT_READ, "answer")
                    for name in ("stdout", "stderr"):
                        waiting.register(getattr(self.child.process, name), selectors.EVENT_READ, name)
                    ready = {key.data for key, _ in waiting.select()}
            except KeyboardInterrupt:
                continue  # node has had it too, and answers
            answers = self.answers() if "answer" in ready else []
            for name in ("stdout", "stderr"):
                self.drain(silent, name)
            if answers is None:
                return self.died(silent)
            for a in answers:
                if "display" in a and not silent:
                    self.send_response(self.iopub_socket, "display_data", {"data": a["display"], "metadata": {}})
                if "error" in a:
                    e = a["error"]
                    return self.failed(silent, str(e.get("name")), str(e.get("value")), [str(e.get("stack"))])
                if "done" in a:
                    if a.get("text") is not None and not silent:
                        content = {"data": {"text/plain": str(a["text"])}, "metadata": {}, "execution_count": self.execution_count}
                        self.send_response(self.iopub_socket, "execute_result", content)
                    return self.done()

    def answers(self):
        data = self.child.socket.recv(1 << 20)
        if not data:
            return None
        *lines, self.child.pending = (self.child.pending + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def drain(self, silent, name):
        while True:
            data = self.child.read(name)
            if not data:
                return
            self.emit(silent, name, self.child.text(name, data))


if __name__ == "__main__":
    kernel = {"bash": BashKernel, "javascript": JavaScriptKernel}[sys.argv.pop(1)]
    IPKernelApp.launch_instance(kernel_class=kernel)
