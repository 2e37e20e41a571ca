"""Archives of this machine's files."""

from __future__ import annotations

import tarfile
from pathlib import Path

from .errors import NotFoundError, UnsupportedError, UnavailableError


def pack(local: Path, archive: Path) -> None:
    """Write an archive of a file under its name, or of what is in a folder."""
    try:
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
            if local.is_dir():
                for entry in sorted(local.iterdir()):
                    tar.add(entry, arcname=entry.name, filter=_plain)
            else:
                tar.add(local, arcname=local.name, filter=_plain)
    except FileNotFoundError as e:
        raise NotFoundError(f"there is no {local} on this machine", field="local", resource=str(local)) from e
    except OSError as e:
        raise UnavailableError(f"{local} cannot be read: {e}", field="local", resource=str(local)) from e


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out owners, which mean nothing inside."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def unpack(archive: Path, folder: Path) -> None:
    """Make what an archive holds in a folder, and nothing outside of it."""
    if not hasattr(tarfile, "data_filter"):
        raise UnsupportedError("this version of Python cannot unpack an archive safely", hint="update it, or use download_archive")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:") as tar:
        tar.extractall(folder, filter="data")
