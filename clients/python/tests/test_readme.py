"""The programs of the README print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "README.md").read_text()
PROGRAMS: list[tuple[str, str]] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.S)


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) == PAGE.count("```python\n") >= 5
    assert PROGRAMS[0][0].count("\n") == 3, "three lines to the first output"


@pytest.mark.usefixtures("own_environment")
@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_programs(program: int, tmp_path: Path) -> None:
    text, want = PROGRAMS[program]
    r = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert r.returncode == 0, r.stderr

    def lines(t: str) -> list[str]:
        return [line.rstrip() for line in t.rstrip().splitlines() if line.strip()]

    assert lines(r.stdout) == lines(want)
    assert r.stderr == ""
