"""Pictures from whatever callers have (path, URL, data URL, bytes, PIL image) to what models read: a data URL.

A plain 8-bit picture is passed on byte for byte. Everything else becomes an RGB PNG that looks as a viewer shows it:
turned as EXIF says, transparency on white, one frame.
"""

import base64
import binascii
import io
import os
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote_to_bytes

from PIL import Image, ImageOps, UnidentifiedImageError

from mai_graph.errors import InputError
from mai_graph.fetch import fetch

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP")
_KEPT = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_MAX_ASPECT = 200
_ORIENTATION = 0x0112
_DATA_URL = re.compile(r"data:(?P<mime>[^;,]*)(?:;[^;,]*?)*?(?P<base64>;base64)?,", re.IGNORECASE)


class ImageLimits(NamedTuple):
    """What is refused before it costs memory or time."""

    max_bytes: int = 50_000_000
    """Of the encoded picture."""
    max_pixels: int = 50_000_000
    """Width times height, read from the header."""
    timeout_s: float = 20
    """Of a download, in seconds."""
    allow_private_urls: bool = False
    """Whether a URL may point into the private network."""


_DEFAULT_LIMITS = ImageLimits()


class LoadedImage(NamedTuple):
    """A picture as the state keeps it."""

    data_url: str
    note: str | None
    """What of the original is not in it, e.g. an animation's later frames."""


def load_image(source: Any, *, field: str = "images[0]", limits: ImageLimits = _DEFAULT_LIMITS) -> LoadedImage:
    """Read one picture.

    Args:
        source: Path, http(s) URL, data URL, encoded bytes, or PIL image.
        field: Where it stands in the input, for errors and notes.
        limits: What to refuse.

    Raises:
        InputError: When there is no picture to be had from it.
    """
    if isinstance(source, Image.Image):
        return _encode(source, field, limits)
    data = _read(source, field, limits)
    if not data:
        raise InputError(field, f"{_shown(source)} is empty (0 bytes)", "Give a picture.")
    if len(data) > limits.max_bytes:
        raise InputError(field, f"{len(data):,} bytes, more than {limits.max_bytes:,}", "Give a smaller picture.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # max_pixels is checked below
            picture = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError:
        formats = ", ".join(_FORMATS)
        raise InputError(field, f"{_shown(source)} is not a picture", f"Readable formats: {formats}.") from None
    except Exception as error:  # noqa: BLE001 - Pillow's plugins raise anything on a broken header
        raise InputError(field, f"{_shown(source)} can't be read: {_words(error)}", "Save it again as PNG.") from None
    with picture:
        return _encode(picture, field, limits, data)


def to_content_block(data_url: str) -> dict[str, Any]:
    """LangChain's standard image block of a data URL made by `load_image`."""
    head, _, data = data_url.partition(",")
    return {"type": "image", "base64": data, "mime_type": head.removeprefix("data:").removesuffix(";base64")}


def from_content_block(block: dict[str, Any], *, field: str, limits: ImageLimits) -> LoadedImage:
    """Read the picture of an image block: LangChain's standard one, its older form, or OpenAI's ``image_url``.

    Raises:
        InputError: When the block holds no picture.
    """
    if block.get("type") == "image_url":
        url = block.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
    else:
        url = block.get("url")
        data = block.get("base64") or (block.get("data") if block.get("source_type") == "base64" else None)
        if isinstance(data, str):
            url = f"data:{block.get('mime_type') or 'image/png'};base64,{data}"
    if not isinstance(url, str) or not url.lower().startswith(("http:", "https:", "data:")):
        raise InputError(field, "holds no base64 data and no http(s) or data URL", "Give one of them.")
    return load_image(url, field=field, limits=limits)


def _read(source: Any, field: str, limits: ImageLimits) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str):
        scheme = source[:10].lstrip().partition(":")[0].lower()
        if scheme in ("http", "https"):
            return fetch(
                source.strip(),
                field=field,
                max_bytes=limits.max_bytes,
                timeout_s=limits.timeout_s,
                allow_private=limits.allow_private_urls,
            )
        if scheme == "data":
            return _decode(source.strip(), field)
        if re.match(r"[a-z][a-z0-9+.-]+://", source.strip(), re.IGNORECASE):
            raise InputError(field, f"{_shown(source)}: only http(s) and data URLs are opened", "Give a path instead.")
    elif not isinstance(source, os.PathLike):
        raise InputError(
            field, f"is a {type(source).__name__}", "Give a path, an http(s) or data URL, bytes, or a PIL image."
        )
    return _read_file(source, field, limits)


def _read_file(source: str | os.PathLike[str], field: str, limits: ImageLimits) -> bytes:
    if not str(source).strip():
        raise InputError(field, "is blank", "Give a picture.")
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            raise InputError(field, f"{_shown(source)} is a directory", "Give the picture's file.")
        if not path.exists():
            raise InputError(field, f"there is no file {_shown(source)}", "Check the path.")
        if not path.is_file():  # a device or pipe might never end
            raise InputError(field, f"{_shown(source)} is not a regular file", "Give the picture's file.")
        if path.stat().st_size > limits.max_bytes:
            raise InputError(
                field, f"{_shown(source)} has more than {limits.max_bytes:,} bytes", "Give a smaller picture."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(field, f"{_shown(source)} can't be read: {_words(error)}", "Check the path.") from None


def _decode(url: str, field: str) -> bytes:
    head = _DATA_URL.match(url)
    if not head or not head["mime"].lower().startswith("image/"):
        raise InputError(field, f"{_shown(url)} is no data URL of a picture", "Write data:image/png;base64,...")
    payload = url[head.end() :]
    if not head["base64"]:
        return unquote_to_bytes(payload)
    try:
        return base64.b64decode("".join(payload.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InputError(field, f"{_shown(url)} is not valid base64", "Encode the picture's bytes again.") from None


def _encode(picture: Image.Image, field: str, limits: ImageLimits, data: bytes | None = None) -> LoadedImage:
    width, height = picture.size
    if width * height > limits.max_pixels:
        raise InputError(
            field, f"{width} x {height} pixels, more than {limits.max_pixels:,}", "Make the picture smaller."
        )
    if not width or not height or max(width, height) > _MAX_ASPECT * min(width, height):
        # Qwen-VL's processor refuses these (smart_resize), after the servers have been called.
        raise InputError(field, f"{width} x {height} pixels is too narrow", f"Keep its sides within 1 : {_MAX_ASPECT}.")
    frames = getattr(picture, "n_frames", 1)
    try:
        picture.load()
        turned = picture.getexif().get(_ORIENTATION, 1) != 1
        if data and frames == 1 and not turned and _is_plain(picture):
            return LoadedImage(_data_url(_KEPT[str(picture.format)], data), None)
        out = io.BytesIO()
        _rgb(ImageOps.exif_transpose(picture) if turned else picture).save(out, "PNG")
    except Exception as error:  # noqa: BLE001 - Pillow's plugins raise anything on broken data
        raise InputError(field, f"is broken or cut short: {_words(error)}", "Save it again as PNG.") from None
    note = f"{field}: only the first of {frames} frames or pages is used" if frames > 1 else None
    return LoadedImage(_data_url("image/png", out.getvalue()), note)


def _is_plain(picture: Image.Image) -> bool:
    return picture.format in _KEPT and picture.mode in ("RGB", "L") and "transparency" not in picture.info


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        picture = _eight_bit(picture)
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def _eight_bit(picture: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float grey to 0..255; Pillow's own conversion would clip at 255."""
    low, high = cast(tuple[float, float], picture.getextrema())  # one band
    if picture.mode.startswith("I;16") or (picture.mode == "I" and 255 < high <= 65535 and low >= 0):
        low, high = 0, 65535  # the range of the format
    elif low >= 0 and high <= 1:
        low, high = 0, 1
    elif low >= 0 and high <= 255:
        low, high = 0, 255
    scale = 255 / ((high - low) or 1)
    grey = picture.convert("F")
    return grey.point(lambda value: value * scale + (-low * scale)).convert("L")


def _data_url(mime: str, data: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"


def _shown(source: Any) -> str:
    text = f"{len(source)} bytes" if isinstance(source, bytes | bytearray | memoryview) else repr(str(source))
    return text if len(text) <= 80 else text[:77] + "..."


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:120]
