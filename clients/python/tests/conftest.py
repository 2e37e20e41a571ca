"""Tests run against a real daemon: the one at $SANDBOX_TEST_SERVER, or one that is
started for them, of the program sandbox on PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkhead_sandbox import Client, Sandbox

SETTINGS = {
    "agents": {"defaults": {"sandbox": {"provider": "local"}}},
    "daemon": {"create": {"env": ["*"], "allowedDomains": ["example.com", "*.example.org"]}},
}


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A short path, since those of sockets are bounded."""
    folder = Path(tempfile.mkdtemp(prefix="sbx-py-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def settings(home: Path) -> Path:
    file = home / "settings.json"
    file.write_text(os.environ.get("SANDBOX_TEST_SETTINGS") or json.dumps(SETTINGS))
    return file


class Daemon:
    """A daemon of its own."""

    def __init__(self, folder: Path, settings: Path, tcp: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"unix:{folder}/d.sock"
        self.tcp = ""
        listen = ["--listen", self.url] + (["--listen", "tcp:127.0.0.1:0"] if tcp else [])
        self.env = {**os.environ, "SANDBOX_STATE_DIR": str(folder / "state"), "SANDBOX_CONFIG": str(settings)}
        for name in ("SANDBOX_SERVER", "SANDBOX_TOKEN"):
            self.env.pop(name, None)
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(["sandbox", "serve", *listen], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        wanted = 2 if tcp else 1
        for raw in self.process.stderr:
            line = raw.decode()
            if "listening at tcp:" in line:
                self.tcp = line.split("listening at ")[1].strip()
            if "listening at" in line:
                wanted -= 1
            if not wanted:
                break
        else:
            raise RuntimeError("the daemon does not start")

    def token(self, *args: str) -> str:
        return subprocess.run(["sandbox", "token", "create", *args], env=self.env, check=True, capture_output=True, text=True).stdout.strip()

    def end(self, signal: str = "TERM") -> None:
        if self.process.poll() is None:
            (self.process.kill if signal == "KILL" else self.process.terminate)()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


@pytest.fixture(scope="session")
def daemon(home: Path, settings: Path) -> Iterator[Daemon]:
    d = Daemon(home / "d", settings, tcp=True)
    yield d
    d.end()


@pytest.fixture(scope="session")
def url(daemon: Daemon) -> str:
    return daemon.url


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[Client]:
    with Client(url) as c:
        yield c


@pytest.fixture(scope="module")
def sb(client: Client) -> Iterator[Sandbox]:
    with Sandbox(client=client) as s:
        yield s


@pytest.fixture
def own_environment(home: Path, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of programs that have an embedded daemon."""
    monkeypatch.setenv("SANDBOX_STATE_DIR", str(home / "embedded"))
    monkeypatch.setenv("SANDBOX_CONFIG", str(settings))
    for name in ("SANDBOX_SERVER", "SANDBOX_TOKEN"):
        monkeypatch.delenv(name, raising=False)
