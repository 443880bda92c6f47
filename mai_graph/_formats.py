"""Which picture formats are read, which are sent on as they are, and what people mistake for them."""

from typing import Final

from PIL import features

READABLE: Final = tuple(
    name
    for name in ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
    if name not in ("AVIF", "WEBP") or features.check(name.lower())
)
"""The formats read, as far as this installation of Pillow has them; none that calls an outside program, as EPS does."""

# MPO, what some phones write, is a JPEG with previews behind it; Pillow opens it as JPEG and then calls it MPO.
KEPT: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp"}
"""MIME types of the formats every model server reads."""

_STARTS: Final = {  # in small letters
    b"\x89png": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"gif8": "GIF",
    b"ii*\0": "TIFF",
    b"mm\0*": "TIFF",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"%pdf": "PDF",
    b"%!ps": "PostScript",
}


def describe(data: bytes) -> str:
    """Name what couldn't be opened by its first bytes: a readable format, or what people mistake for a picture."""
    head = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if head[4:8] == b"ftyp":
        brands = head[8:32]
        return "AVIF" if b"avi" in brands else "HEIC" if b"hei" in brands or b"mif1" in brands else "a video"
    if head.startswith(b"riff") and head[8:12] == b"webp":
        return "WEBP"
    named = next((name for start, name in _STARTS.items() if head.startswith(start)), None)
    return named or ("SVG" if b"<svg" in head else "unknown data")
