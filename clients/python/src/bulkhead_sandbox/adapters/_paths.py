"""Which refusals of a file mean that it is none of the sandbox's files."""

from __future__ import annotations

from bulkhead_sandbox import SandboxError


def outside(e: SandboxError) -> bool:
    """Whether a path is below no folder that the files of the sandbox are in.

    Such a path is of the image or of the kernel, and only commands reach it. A path in
    the workspace that is refused, by a rule or because a link leads out of it, is not
    meant: nothing else may be tried for it.
    """
    return e.code == "SANDBOX.CAPABILITY_BLOCKED" and e.field == "path" and "is outside every mount" in str(e)
