"""What a task of inspect_ai asks of its sandbox: settings, a compose file, a Dockerfile.

A file is mapped whole or refused with the name of the field that has no meaning here:
a sample that runs without something that its task asked for would measure something else.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml
from inspect_ai.util import ComposeConfig, is_compose_yaml, is_dockerfile
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class SandboxConfig(BaseModel):
    """The sandbox of each sample. What is left out is as the settings of the daemon say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None = None
    """Image, which ``daemon.create.images`` of the daemon's settings has to permit."""
    preset: str | None = None
    """``strict``, ``restricted``, ``normal`` or ``permissive``."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of every command."""
    working_dir: str | None = None
    """Where commands run and relative paths begin; the workspace without."""
    allowed_domains: list[str] | None = None
    """Hosts that can be reached; an empty list is none."""
    memory: int | None = Field(default=None, gt=0)
    """Bytes of memory."""
    disk: int | None = Field(default=None, gt=0)
    """Bytes of the workspace."""
    cpus: float | None = Field(default=None, gt=0)
    processes: int | None = Field(default=None, gt=0)
    user: str | None = None
    """The account of commands that name none. It has to be that of the sandbox."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # inspect_ai keeps configs as keys


def resolve(config: BaseModel | str | None, variables: Mapping[str, str]) -> SandboxConfig:
    """Return what a config of a task asks for.

    ``variables`` are the values of ``$NAME`` in a compose file, beside those of the
    environment. ValueError names the field that cannot be had.
    """
    if config is None:
        return SandboxConfig()
    if isinstance(config, SandboxConfig):
        return config
    if isinstance(config, ComposeConfig):
        # An object that a program has made has its values already.
        return _service(config.model_dump(by_alias=True, exclude_none=True), Path.cwd(), "compose")
    if not isinstance(config, str):
        raise ValueError(f"config: {type(config).__name__} is neither a SandboxConfig nor a ComposeConfig")
    path = Path(config)
    if not path.is_file():
        raise FileNotFoundError(f"config: there is no file {config}")
    if is_dockerfile(config):
        return _dockerfile(path)
    text = path.read_text(encoding="utf-8")
    if is_compose_yaml(config):
        return _service(_interpolate(yaml.safe_load(text), {**os.environ, **variables}, ""), path.parent, path.name)
    try:
        return SandboxConfig.model_validate(yaml.safe_load(text) or {})
    except ValidationError as e:
        raise ValueError(f"{path.name}: {_first(e)}") from e


def _first(e: ValidationError) -> str:
    error = e.errors()[0]
    return f"{'.'.join(str(p) for p in error['loc'])}: {error['msg']}"


# A service ------------------------------------------------------------------------

_KEEP_ALIVE = re.compile(r"(tail -f /dev/null|sleep (infinity|inf|\d+[smhd]?)|cat)")


def _keep_alive(value: Any) -> bool:
    """Whether a command only keeps a container, which a sandbox needs no command for."""
    words = shlex.split(value) if isinstance(value, str) else [str(v) for v in value]
    if len(words) == 3 and words[0].rsplit("/", 1)[-1] in ("sh", "bash") and words[1] == "-c":
        words = shlex.split(words[2])
    return bool(_KEEP_ALIVE.fullmatch(" ".join(words)))


# Fields with values that ask for what every sandbox is, or for nothing that shows.
_SAME: dict[str, Callable[[Any], bool]] = {
    "command": _keep_alive,
    "entrypoint": _keep_alive,
    "init": lambda v: v is True,
    "privileged": lambda v: v is False,
    "read_only": lambda v: v is True,
    "cap_add": lambda v: not v,
    "cap_drop": lambda v: True,
    "security_opt": lambda v: all(re.fullmatch(r"no-new-privileges([:=]true)?", str(o)) for o in v),
    "tmpfs": lambda v: set([v] if isinstance(v, str) else v) <= {"/tmp", "/var/tmp", "/run"},
    "pull_policy": lambda v: v in ("missing", "never", "if_not_present"),
    "network_mode": lambda v: v in ("none", "bridge", "default"),
    "stop_grace_period": lambda v: True,
    "restart": lambda v: True,
    "stdin_open": lambda v: True,
    "tty": lambda v: True,
    "expose": lambda v: True,
    "x-default": lambda v: True,
    "x-local": lambda v: True,
}
_MAPPED = {
    "image", "build", "environment", "env_file", "working_dir", "user", "cpus", "mem_limit", "pids_limit", "deploy", "x-sandbox",
}


def _service(raw: Any, folder: Path, file: str) -> SandboxConfig:
    def refuse(field: str, why: str) -> NoReturn:
        raise ValueError(f"{file}: {field}: {why}")

    if not isinstance(raw, dict) or not isinstance(raw.get("services"), dict) or not raw["services"]:
        refuse("services", "there is none")
    for field, value in raw.items():
        if field in ("volumes", "networks", "secrets", "configs", "include") and value:
            refuse(field, "a sandbox has none of the file's own")
        if field not in ("services", "version", "name", "volumes", "networks", "secrets", "configs", "include") and not str(field).startswith("x-"):
            refuse(str(field), "unknown field")
    if len(raw["services"]) > 1:
        refuse("services", f"{len(raw['services'])} services ({', '.join(map(str, raw['services']))}), and a sample has one sandbox; "
               "put them into one image, or use another provider of sandboxes for this task")
    (name, service), = raw["services"].items()
    at = f"services.{name}"
    if not isinstance(service, dict):
        refuse(at, "has no fields")
    for field, value in service.items():
        if value is None or field in _MAPPED:
            continue
        if field not in _SAME and not str(field).startswith("x-"):
            refuse(f"{at}.{field}", "cannot be had in a sandbox")
        if field in _SAME and not _SAME[field](value):
            refuse(f"{at}.{field}", f"{value!r} cannot be had in a sandbox")
    got: dict[str, Any] = {}
    if service.get("image"):
        got["image"] = str(service["image"])
    elif service.get("build") is not None:
        build = service["build"] if isinstance(service["build"], dict) else {"context": service["build"]}
        for field in build:
            if field not in ("context", "dockerfile", "no_cache", "pull") and not field.startswith("x-"):
                refuse(f"{at}.build.{field}", "cannot be had in a sandbox")
        got = _dockerfile(folder / str(build.get("context", ".")) / str(build.get("dockerfile", "Dockerfile"))).model_dump(exclude_unset=True)
    env: dict[str, str] = dict(got.get("env", {}))
    files = service.get("env_file") or []
    for each in [files] if isinstance(files, str) else files:
        env |= _env_file(folder / str(each), f"{at}.env_file")
    variables = service.get("environment") or {}
    pairs = [str(v).partition("=")[::2] if "=" in str(v) else (str(v), None) for v in variables] if isinstance(variables, list) else variables.items()
    for key, value in pairs:
        if value is None:  # the value of whoever runs this, as docker has it
            if key in os.environ:
                env[key] = os.environ[key]
        else:
            env[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    got["env"] = env
    for field, to in (("working_dir", "working_dir"), ("user", "user")):
        if service.get(field) is not None:
            got[to] = str(service[field])
    if service.get("network_mode") == "none":
        got["allowed_domains"] = []
    limits: dict[str, Any] = {}
    deploy = service.get("deploy") or {}
    for field, value in deploy.items():
        if field != "resources" and value is not None:
            refuse(f"{at}.deploy.{field}", "cannot be had in a sandbox")
    for field, value in (deploy.get("resources") or {}).items():
        if field != "limits" and value is not None:
            refuse(f"{at}.deploy.resources.{field}", "cannot be had in a sandbox; limits can")
    for field, value in ((deploy.get("resources") or {}).get("limits") or {}).items():
        if field not in ("cpus", "memory", "pids") and value is not None:
            refuse(f"{at}.deploy.resources.limits.{field}", "cannot be had in a sandbox")
        limits[field] = (f"{at}.deploy.resources.limits.{field}", value)
    for field, to in (("cpus", "cpus"), ("mem_limit", "memory"), ("pids_limit", "pids")):
        if service.get(field) is not None:
            limits[to] = (f"{at}.{field}", service[field])
    for what, (field, value) in limits.items():
        if value is None:
            continue
        try:
            if what == "cpus":
                got["cpus"] = float(value)
            elif what == "memory":
                got["memory"] = _size(value)
            elif int(value) > 0:  # -1 is no limit of its own
                got["processes"] = int(value)
        except ValueError:
            refuse(field, f"{value!r} is not understood")
    got |= service.get("x-sandbox") or {}
    try:
        return SandboxConfig.model_validate(got)
    except ValidationError as e:
        raise ValueError(f"{file}: {at}: {_first(e)}") from e


def _size(value: Any) -> int:
    m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", str(value).strip().lower())
    if m is None:
        raise ValueError(value)
    return int(float(m[1]) * 1024 ** "bkmgt".index(m[2] or "b"))


def _env_file(path: Path, field: str) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise ValueError(f"{field}: {e}") from e
    env: dict[str, str] = {}
    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, given, value = line.removeprefix("export ").partition("=")
        value = value.strip()
        if not given:
            value = os.environ.get(key, "")
        elif value[:1] in ("'", '"') and value.endswith(value[0]) and len(value) > 1:
            value = value[1:-1]
        env[key.strip()] = value
    return env


_VARIABLE = re.compile(r"\$(?:\$|(?P<plain>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<op>:?[-?+])(?P<word>[^{}]*))?\})")


def _interpolate(value: Any, variables: Mapping[str, str], field: str) -> Any:
    """Replace $NAME and ${NAME…} as compose does, except that a name without a value is refused."""
    if isinstance(value, dict):
        return {k: _interpolate(v, variables, f"{field}.{k}".strip(".")) for k, v in value.items()}
    if isinstance(value, list):
        return [_interpolate(v, variables, f"{field}[{i}]") for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def one(m: re.Match[str]) -> str:
        if m[0] == "$$":
            return "$"
        name, op, word = m["plain"] or m["braced"], m["op"] or "", m["word"] or ""
        got = variables.get(name)
        if op.startswith(":") and got == "":
            got = None
        if op.endswith("+"):
            return word if got is not None else ""
        if got is not None:
            return got
        if op.endswith("-"):
            return word
        raise ValueError(f"{field}: the variable {name} has no value" + (f": {word}" if word else ""))

    return _VARIABLE.sub(one, value)


# A Dockerfile ---------------------------------------------------------------------


def _dockerfile(path: Path) -> SandboxConfig:
    """Map a Dockerfile that adds nothing to its image but variables and a folder."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise ValueError(f"{path.name}: {e}") from e
    got: dict[str, Any] = {"env": {}}
    values: dict[str, str] = {}

    def put(word: str) -> str:
        return re.sub(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))", lambda m: values.get(m[1] or m[3], m[2] or ""), word)

    line, begun = "", 0
    for number, more in enumerate(text.splitlines(), 1):
        if not line and (not more.strip() or more.lstrip().startswith("#")):
            continue
        begun = begun if line else number
        line += more
        if line.endswith("\\"):
            line = line[:-1] + " "
            continue
        word, _, rest = line.strip().partition(" ")
        line, rest = "", rest.strip()
        match word.upper():
            case "FROM":
                parts = [p for p in put(rest).split() if not p.startswith("--")]
                if "image" in got or len(parts) != 1 or rest.startswith("--"):
                    raise ValueError(f"{path.name}:{begun}: FROM: an image of several stages has to be built before; name the image in compose.yaml")
                got["image"] = parts[0]
            case "ARG":
                key, given, value = rest.partition("=")
                values.setdefault(key, put(value.strip("'\"")) if given else "")
            case "ENV":
                words = shlex.split(rest)
                if "=" not in words[0]:
                    words = [words[0] + "=" + rest.split(None, 1)[1]]
                for pair in words:
                    key, _, value = pair.partition("=")
                    got["env"][key] = values[key] = put(value)
            case "WORKDIR":
                got["working_dir"] = os.path.join(got.get("working_dir", "/"), put(rest))
            case "USER":
                got["user"] = put(rest).partition(":")[0]
            case "LABEL" | "MAINTAINER" | "EXPOSE" | "CMD" | "ENTRYPOINT" | "STOPSIGNAL":
                pass  # nothing of these is there for commands that are run beside the first
            case other:
                raise ValueError(
                    f"{path.name}:{begun}: {other}: a sandbox is not built; build the image (docker build -t NAME .), "
                    "permit it in daemon.create.images and name it in compose.yaml"
                )
    if "image" not in got:
        raise ValueError(f"{path.name}: FROM: there is none")
    return SandboxConfig.model_validate(got)
