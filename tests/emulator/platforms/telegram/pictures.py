"""Small files for the tests of uploads."""

import struct
import zlib


def png(width: int = 4, height: int = 3) -> bytes:
    """A PNG of this size; its one chunk of data is empty, which nobody looks at."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", b""), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + chunks


OGG = b"OggS" + b"\0" * 24 + b"OpusHead" + b"\0" * 16
