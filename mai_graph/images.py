"""Reading pictures: from a path, URL, data URL, bytes or PIL image to one data URL that vLLM takes.

Everything that can be wrong with a picture is found here, before a model is called. Every error names the field and
the remedy, and none shows the picture's bytes.
"""

import base64
import os
import re
import reprlib
import string
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from mai_graph._fetch import fetch
from mai_graph._formats import KEPT, READABLE, describe
from mai_graph._pixels import orientation, upright_rgb
from mai_graph.errors import InputError

_URL: Final = re.compile(r"(?:data|file|https?):|[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_BASE64_STARTS: Final = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")  # PNG, JPEG, GIF, WebP

_short = reprlib.Repr()
_short.maxstring = 120


class ImageLimits(BaseModel):
    """What a picture may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_pixels: int = Field(
        50_000_000,
        gt=0,
        description="Width x height, read from the header before anything is decoded. Pillow's own limit, "
        "PIL.Image.MAX_IMAGE_PIXELS, holds besides.",
    )
    max_bytes: int = Field(20 * 1024 * 1024, gt=0, description="Size of the file, the body of a URL, or the bytes.")
    max_aspect_ratio: float = Field(
        200, ge=1, description="Longer side / shorter side. Qwen-VL's image processor refuses more than 200."
    )
    timeout_s: float = Field(10, gt=0, description="Seconds for fetching a URL, redirects included.")
    allow_private_urls: bool = Field(False, description="Whether URLs may point into the private network.")


_DEFAULT_LIMITS: Final = ImageLimits()


@dataclass(frozen=True)
class LoadedImage:
    """A picture ready to be sent.

    Attributes:
        data_url: PNG, JPEG or WebP as ``data:image/...;base64,...``; not part of the repr, which may get into logs.
        note: What of the given picture is not in there, or how it was read, starting with the field; else None.
    """

    data_url: str = dataclass_field(repr=False)
    note: str | None = None


def load_image(
    source: str | bytes | os.PathLike[str] | Image.Image,
    *,
    field: str = "images[0]",
    limits: ImageLimits = _DEFAULT_LIMITS,
) -> LoadedImage:
    """Read and check one picture. Blocks on files and the network: asynchronous callers use a thread.

    A single-frame PNG, JPEG or WebP that reads as 8-bit RGB or grey and stands upright is kept byte for byte. All else
    becomes RGB on white, turned as its EXIF data says: a JPEG again where it was one (quality 95, full colour
    resolution), else a PNG. Of several frames or pages the first is taken; of a PIL image the one it stands at.

    Args:
        source: A path, an http(s) URL, a data URL, the bytes of a file, or a PIL image (which is left as it is).
        field: Names the value in errors and notes.
        limits: The most it may take.

    Raises:
        InputError: It can't be used; says why and what to do.
    """
    if isinstance(source, Image.Image):
        return _from_pillow(source, field, limits)
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_bytes(bytes(source), field, limits)
    if isinstance(source, str) and _URL.match(source.strip()):
        return _from_bytes(_read_url(source, field, limits), field, limits)
    if isinstance(source, str | os.PathLike):
        return _from_bytes(_read_file(os.fsdecode(source), field, limits), field, limits)
    raise InputError(
        field, f"is a {type(source).__name__}, not a picture", "Give a path, URL, data URL, bytes or a PIL image."
    )


def to_content_block(data_url: str) -> dict[str, str]:
    """Make LangChain's standard image block of a `LoadedImage.data_url`."""
    mime_type, _, data = data_url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "base64": data, "mime_type": mime_type}


def from_content_block(block: Mapping[str, Any], *, field: str, limits: ImageLimits = _DEFAULT_LIMITS) -> LoadedImage:
    """Read the picture of an image block in a message's content.

    Args:
        block: LangChain's standard block (``base64`` or ``url``), its older form (``source_type``), or OpenAI's
            ``image_url``. A URL in a block is http(s) or data: who writes messages can't open files.
        field: Names the block in errors and notes, e.g. ``messages[0].content[1]``.
        limits: The most the picture may take.

    Raises:
        InputError: The block has another form, or its picture can't be used.
    """
    if block.get("type") == "image_url":
        url = block.get("image_url")
        given = {"image_url": url.get("url") if isinstance(url, Mapping) else url}
    else:
        given = {key: block[key] for key in ("base64", "data", "url") if block.get(key) is not None}
    if len(given) != 1:
        by_id = "file_id" in block or block.get("source_type") == "id"
        problem = "names a stored file by its id" if by_id else "doesn't hold exactly one of base64 and url"
        raise InputError(field, problem, 'Give {"type": "image", "base64": "...", "mime_type": "image/png"}.')
    ((key, value),) = given.items()
    where = f"{field}.{key}"
    if not isinstance(value, str):
        raise InputError(where, f"is a {type(value).__name__}, not a string", "Give a URL or base64 text.")
    if key in ("url", "image_url"):
        return _from_bytes(_read_url(value, where, limits), where, limits)
    _refuse_other_types(str(block.get("mime_type") or "image/*"), field)
    return _from_bytes(_decode_base64(value, where, limits), where, limits)


def _read_file(name: str, field: str, limits: ImageLimits) -> bytes:
    if not name.strip() or "\0" in name:
        raise InputError(field, f"{_short.repr(name)} is not a path", "Give the picture's path or URL.")
    path, shown = Path(name), _short.repr(name)
    try:
        if path.is_dir():
            raise InputError(field, f"{shown} is a directory", "Give the path of one picture in it.")
        if path.exists() and not path.is_file():
            raise InputError(field, f"{shown} is not a regular file", "Read it yourself and give the bytes.")
        with path.open("rb") as file:
            return file.read(limits.max_bytes + 1)
    except (OSError, UnicodeError) as error:
        if name.startswith(_BASE64_STARTS) or len(name) > 1000:
            problem = f"a text of {len(name):,} characters, neither a URL nor the path of a file"
            raise InputError(field, problem, "Base64 text needs its start: data:image/png;base64,...") from None
        if isinstance(error, FileNotFoundError):
            remedy = "Check the path." if path.is_absolute() else f"Check the path; it is looked for in {Path.cwd()}."
            raise InputError(field, f"there is no file {shown}", remedy) from None
        reason = getattr(error, "strerror", None) or "its name has characters that no file name has"
        raise InputError(field, f"{shown} can't be opened: {reason}", "Check the path and its permissions.") from None


def _read_url(given: str, field: str, limits: ImageLimits) -> bytes:
    url = given.strip()
    scheme, _, rest = url.partition(":")
    if scheme.lower() in ("http", "https"):
        return fetch(
            url,
            field=field,
            max_bytes=limits.max_bytes,
            timeout_s=limits.timeout_s,
            allow_private=limits.allow_private_urls,
        )
    if scheme.lower() != "data":
        remedy = "Give an http(s) or data URL; in `images` a file's path will do, without file:."
        raise InputError(field, f"{_short.repr(url)} is not an http(s) or data URL", remedy)
    kind, comma, data = rest.partition(",")
    if not comma or not kind.lower().endswith(";base64"):
        raise InputError(field, "is a data URL without base64 data", "Give data:image/png;base64,...")
    _refuse_other_types(kind.partition(";")[0] or "text/plain", field)  # RFC 2397: no type means text
    return _decode_base64(data, field, limits)


def _refuse_other_types(media_type: str, field: str) -> None:
    if not media_type.strip().lower().startswith("image/"):
        problem = f"holds {_short.repr(media_type)}, not a picture"
        raise InputError(field, problem, "Give a picture, with its type, e.g. image/png.")


def _decode_base64(text: str, field: str, limits: ImageLimits) -> bytes:
    # Encoders wrap lines. (Splitting hostile text into words would take 20 times its memory.)
    encoded = text.encode("ascii", "replace").translate(None, string.whitespace.encode())
    if len(encoded) * 3 // 4 > limits.max_bytes + 2:  # the padding may count for two
        raise _too_many_bytes(field, limits)
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        raise InputError(
            field, "isn't valid base64", "Encode the file's bytes with base64.b64encode, without any prefix."
        ) from None


def _from_bytes(data: bytes, field: str, limits: ImageLimits) -> LoadedImage:
    if not data:
        raise InputError(field, "is empty (0 bytes)", "Give a picture.")
    if len(data) > limits.max_bytes:
        raise _too_many_bytes(field, limits)
    try:
        image = Image.open(BytesIO(data), formats=READABLE)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        size = str(error).partition(",")[0]
        raise InputError(field, f"has too many pixels ({size})", _fewer_pixels(limits)) from None
    except Exception as error:  # Pillow's readers raise almost anything on a broken file
        kind = describe(data)
        if kind in READABLE:
            raise _damaged(field, kind) from error
        problem = f"is {kind}, not a picture this build can read"
        raise InputError(field, problem, f"Convert it to PNG or JPEG; readable are {', '.join(READABLE)}.") from None
    return _from_pillow(image, field, limits, data)


def _from_pillow(image: Image.Image, field: str, limits: ImageLimits, data: bytes | None = None) -> LoadedImage:
    """Check size, then decode; `data` are the bytes of the file the image was just opened from, if it was."""
    width, height = image.size
    if not width or not height:
        raise InputError(field, f"is {width} x {height} pixels", "Give a picture with at least one pixel.")
    if width * height > limits.max_pixels:
        raise InputError(field, f"is {width} x {height} pixels", _fewer_pixels(limits))
    if max(width, height) > limits.max_aspect_ratio * min(width, height):
        problem = f"is {width} x {height} pixels, longer than {limits.max_aspect_ratio:g} times its other side"
        raise InputError(field, problem, "Crop or pad it: the models' image processor refuses such a strip.")
    try:
        frames = _frames_note(image)
        image.load()
    except Exception as error:  # again almost anything
        if data is None:
            problem = "the PIL image can't be read"
            raise InputError(field, problem, "Was it closed, or is its file damaged? Open it again.") from error
        raise _damaged(field, str(image.format)) from error
    plain = image.mode in ("RGB", "L") and not image.has_transparency_data and orientation(image) == 1
    if data and image.format in KEPT and plain and not frames:
        return LoadedImage(_data_url(data, KEPT[image.format]))
    try:
        rgb, values = upright_rgb(image)
    except Exception as error:  # and again
        problem = f"a picture of colour mode {image.mode} can't be converted to RGB ({error})"
        raise InputError(field, problem, "Save it as an 8-bit RGB picture.") from error
    buffer = BytesIO()
    if data and image.format in ("JPEG", "MPO"):  # a photo as PNG takes ten times as long and three times the bytes
        rgb.save(buffer, "JPEG", quality=95, subsampling=0)
        mime_type = "image/jpeg"
    else:
        rgb.save(buffer, "PNG", compress_level=1)  # the higher levels take seconds for a few percent
        mime_type = "image/png"
    notes = "; ".join(filter(None, (frames, values)))
    return LoadedImage(_data_url(buffer.getvalue(), mime_type), f"{field}: {notes}" if notes else None)


def _frames_note(image: Image.Image) -> str | None:
    # Pillow counts the frames of a GIF by walking through it, which a hostile one makes long; that there are two is
    # cheap to know. The further pictures of an MPO are previews or depth maps of the first.
    if not getattr(image, "is_animated", False) or image.format == "MPO":
        return None
    kind, unit = ("multi-page TIFF", "page") if image.format == "TIFF" else (f"animated {image.format}", "frame")
    which = f"{unit} {image.tell() + 1}" if image.tell() else f"the first {unit}"
    return f"{kind}: only {which} is used"


def _damaged(field: str, kind: str) -> InputError:
    return InputError(
        field, f"the {kind} picture is cut off or damaged", "Get the file again, or save it anew with a viewer."
    )


def _too_many_bytes(field: str, limits: ImageLimits) -> InputError:
    return InputError(field, f"is larger than {limits.max_bytes:,} bytes", "Give a smaller file, or raise max_bytes.")


def _fewer_pixels(limits: ImageLimits) -> str:
    return f"Shrink it to at most {limits.max_pixels:,} pixels (max_pixels)."


def _data_url(data: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode('ascii')}"
