from __future__ import annotations

import codecs


class Decoder:
    """Decodes UTF-8 that comes in pieces, which may end within a character."""

    def __init__(self) -> None:
        self._inner = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._inner.decode(data)

    def end(self) -> str:
        return self._inner.decode(b"", True)
