from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import models
from .._core import segment
from ..errors import UnavailableError

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox


class AsyncBrowser:
    """The browser of the session, and its page."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sb = sandbox

    async def start(self, *, cdp: bool = False, watch: bool = False) -> models.Browser:
        """Start the browser. With ``cdp`` the answer has an address for DevTools, with ``watch`` one for people."""
        return await self._sb._call("POST", "/browser", models.Browser, json={"cdp": cdp, "watch": watch}, unbounded=True)

    async def list(self) -> list[models.Browser]:
        return (await self._sb._call("GET", "/browser", models.BrowserList, again=True)).items

    async def stop(self, force: bool = False) -> None:
        """Remove the browser with all profiles in it."""
        await self._sb._done("DELETE", "/browser", query={"force": force or None})

    async def act(self, action: str, **fields: Any) -> models.BrowserAnswer:
        """Act on the page; the fields are those of the HTTP interface."""
        body = {k: v for k, v in fields.items() if v is not None}
        return await self._sb._call("POST", f"/browser/{segment(action)}", models.BrowserAnswer, json=body, unbounded=True)

    async def navigate(self, url: str) -> models.Page:
        """Open an address, or a file of the workspace."""
        page = (await self.act("navigate", url=url)).page
        if page is None:
            raise UnavailableError("the daemon has not sent the page")
        return page

    async def click(self, selector: str) -> None:
        await self.act("click", selector=selector)

    async def type(self, selector: str, text: str) -> None:
        await self.act("type", selector=selector, text=text)

    async def upload(self, selector: str, files: Sequence[str]) -> None:
        """Choose files of the workspace in an input."""
        await self.act("upload", selector=selector, files=list(files))

    async def wait(self, selector: str | None = None, *, text: str | None = None, gone: bool | None = None, timeout: float | None = None) -> None:
        """Wait for an element, for a text, or until an element has gone."""
        await self.act("wait", selector=selector, text=text, gone=gone, timeoutSeconds=int(timeout) if timeout is not None else None)

    async def extract(
        self, parts: Sequence[str] | None = None, *, selector: str | None = None, max_text: int | None = None, max_links: int | None = None, max_nodes: int | None = None,
    ) -> models.Content:
        """Return the text, the links or the tree of the page."""
        content = (
            await self.act("extract", parts=list(parts) if parts is not None else None, selector=selector, maxText=max_text, maxLinks=max_links, maxNodes=max_nodes)
        ).content
        if content is None:
            raise UnavailableError("the daemon has not sent the content")
        return content

    async def screenshot(
        self, *, full: bool | None = None, selector: str | None = None, width: int | None = None, height: int | None = None, jpeg: int | None = None,
    ) -> bytes:
        """Return a picture of the page: a PNG, or a JPEG of that quality."""
        return picture(await self.act("screenshot", full=full, selector=selector, width=width, height=height, jpeg=jpeg))

    async def pdf(self) -> bytes:
        """Return the page as PDF."""
        return picture(await self.act("pdf"))

    async def download(self, selector: str | None = None, *, url: str | None = None, path: str | None = None) -> models.Download:
        """Download what a link leads to into a folder of the workspace."""
        d = (await self.act("download", selector=selector, url=url, path=path)).download
        if d is None:
            raise UnavailableError("the daemon has not sent what was downloaded")
        return d


def picture(a: models.BrowserAnswer) -> bytes:
    if a.data is None:
        raise UnavailableError("the daemon has sent no data")
    return base64.b64decode(a.data)
