"""Pictures: what is kept, what is converted and how, and one clear error for everything that can't be used."""

import base64
import contextlib
import io
import logging
import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from PIL import ExifTags, Image, features

from mai_graph.errors import InputError
from mai_graph.images import ImageLimits, from_content_block, load_image, to_content_block
from tests.pictures import LIMITS, PNG, data_url, encode, picture, refused

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def row(mode: str, *values: object) -> Image.Image:
    image = Image.new(mode, (len(values), 1))
    for x, value in enumerate(values):
        image.putpixel((x, 0), value)
    return image


def seen(url: str) -> Image.Image:
    """The picture as a model server decodes it."""
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def pixels(url: str) -> list[tuple[int, int, int]]:
    image = seen(url)
    assert image.mode == "RGB"
    return [image.getpixel((x, y)) for y in range(image.height) for x in range(image.width)]


NOISE = Image.effect_noise((64, 64), 50)
CUT_OFF = {name: encode(NOISE, name)[:1500] for name in ("PNG", "JPEG", "GIF", "WEBP", "TIFF")}
FRAMES = [Image.new("RGB", (4, 2), colour) for colour in (RED, BLUE, GREEN)]


# What is kept


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(
    ("file_format", "mime_type"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")]
)
def test_a_plain_picture_is_kept_byte_for_byte(mode: str, file_format: str, mime_type: str) -> None:
    data = encode(picture(mode), file_format)
    loaded = load_image(data)
    assert loaded.data_url == data_url(data, mime_type)
    assert loaded.note is None


@pytest.mark.parametrize("tag", [1, 0, 9], ids=["upright", "zero", "unknown"])
def test_an_exif_orientation_that_turns_nothing_leaves_the_file_as_it_is(tag: int) -> None:
    data = encode(picture(), "JPEG", exif=orientation(tag))
    assert load_image(data).data_url == data_url(data, "image/jpeg")


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_broken_exif_data_does_not_stop_a_picture() -> None:
    data = encode(picture(), "JPEG", exif=b"Exif\0\0MM\0\x2a\0\0\xff\xff\xff\xff")
    assert load_image(data).data_url == data_url(data, "image/jpeg")


def test_every_kind_of_source_gives_the_same_data_url(tmp_path: Path) -> None:
    path = tmp_path / "a picture.png"
    path.write_bytes(PNG)
    wrapped = data_url(PNG)[:60] + "\n" + data_url(PNG)[60:]
    sources = [path, str(path), PNG, bytearray(PNG), data_url(PNG), f"  {data_url(PNG)}\n", wrapped]
    assert {load_image(source).data_url for source in sources} == {data_url(PNG)}


def test_the_type_comes_from_the_bytes_and_not_from_the_name_or_the_declared_type(tmp_path: Path) -> None:
    path = tmp_path / "really.png"
    path.write_bytes(jpeg := encode(picture(), "JPEG"))
    assert load_image(path).data_url == load_image(data_url(jpeg)).data_url == data_url(jpeg, "image/jpeg")


# What is converted, pixel by pixel

PALETTE = row("P", 0, 1)
PALETTE.putpalette([*RED, *BLUE])
TRANSPARENT = (0, 0, 0, 0)

CONVERSIONS = {
    "alpha is composed on white": (row("RGBA", (*RED, 255), TRANSPARENT, (*BLACK, 51)), "PNG", {}),
    "grey with alpha": (row("LA", (0, 255), (0, 0), (0, 51)), "PNG", {}),
    "one transparent colour": (row("RGB", RED, BLUE), "PNG", {"transparency": BLUE}),
    "one transparent grey": (row("L", 7, 200), "PNG", {"transparency": 7}),
    "palette": (PALETTE, "PNG", {}),
    "palette with one transparent entry": (PALETTE, "PNG", {"transparency": 1}),
    "palette with an alpha each": (PALETTE, "PNG", {"transparency": bytes([255, 51])}),
    "16-bit grey": (row("I;16", 0, 0x8080, 0xFFFF, 256), "PNG", {}),
    "16-bit grey, one of them transparent": (row("I;16", 0, 0x8080), "PNG", {"transparency": 0x8080}),
    "16-bit grey, big-endian TIFF": (row("I;16B", 0, 0x8080, 0xFFFF), "TIFF", {}),
    "CMYK": (row("CMYK", (0, 0, 0, 0), (255, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 204)), "TIFF", {}),
    "black and white": (row("1", 0, 1), "PNG", {}),
    "BMP": (row("RGB", RED, GREEN), "BMP", {}),
    "WebP with alpha": (row("RGBA", (*RED, 255), TRANSPARENT), "WEBP", {"lossless": True}),
}
EXPECTED = {
    "alpha is composed on white": [RED, WHITE, (204, 204, 204)],
    "grey with alpha": [BLACK, WHITE, (204, 204, 204)],
    "one transparent colour": [RED, WHITE],
    "one transparent grey": [WHITE, (200, 200, 200)],
    "palette": [RED, BLUE],
    "palette with one transparent entry": [RED, WHITE],
    "palette with an alpha each": [RED, (204, 204, 255)],
    "16-bit grey": [BLACK, (128, 128, 128), WHITE, (1, 1, 1)],
    "16-bit grey, one of them transparent": [BLACK, WHITE],
    "16-bit grey, big-endian TIFF": [BLACK, (128, 128, 128), WHITE],
    "CMYK": [WHITE, (0, 255, 255), RED, (51, 51, 51)],
    "black and white": [BLACK, WHITE],
    "BMP": [RED, GREEN],
    "WebP with alpha": [RED, WHITE],
}


@pytest.mark.parametrize("case", CONVERSIONS)
def test_other_pictures_become_8_bit_rgb_on_white(case: str) -> None:
    image, file_format, options = CONVERSIONS[case]
    loaded = load_image(encode(image, file_format, **options))
    assert pixels(loaded.data_url) == EXPECTED[case]
    assert loaded.data_url.startswith("data:image/png;")
    assert loaded.note is None


@pytest.mark.parametrize(
    ("mode", "values", "expected", "scale"),
    [
        ("I", (0, 128, 255), (0, 128, 255), "0 as black and 255 as white"),
        ("I", (0, 0x8080, 65535), (0, 128, 255), "0 as black and 65535 as white"),
        ("I", (-100, 0, 100), (0, 128, 255), "-100 as black and 100 as white"),
        ("I", (70000, 70000), (0, 0), "70000 as black and 70000 as white"),
        ("F", (0.0, 0.5, 1.0), (0, 128, 255), "0 as black and 1 as white"),
        ("F", (0.0, 127.6, 255.0), (0, 128, 255), "0 as black and 255 as white"),
        ("F", (-1.0, 0.0, 1.0), (0, 128, 255), "-1 as black and 1 as white"),
    ],
)
def test_32_bit_and_float_greys_take_the_scale_their_values_suggest_and_say_so(
    mode: str, values: tuple[float, ...], expected: tuple[int, ...], scale: str
) -> None:
    loaded = load_image(encode(row(mode, *values), "TIFF"), field="images[2]")
    assert pixels(loaded.data_url) == [(value,) * 3 for value in expected]
    assert loaded.note
    assert loaded.note.startswith("images[2]: ")
    assert loaded.note.endswith(scale)


def test_a_premultiplied_grey_pil_image_is_composed_on_white() -> None:
    assert pixels(load_image(row("LA", (0, 255), (0, 0)).convert("La")).data_url) == [BLACK, WHITE]


def orientation(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = value
    return exif


def corners(image: Image.Image) -> str:
    """The quadrants' colours, read row by row: r, g, b or w."""
    names = {(1, 0, 0): "r", (0, 1, 0): "g", (0, 0, 1): "b", (1, 1, 1): "w"}
    at = [(x, y) for y in (0.25, 0.75) for x in (0.25, 0.75)]
    found = (image.getpixel((int(image.width * x), int(image.height * y))) for x, y in at)
    return "".join(names[tuple(int(channel > 127) for channel in pixel)] for pixel in found)


@pytest.mark.parametrize(
    ("tag", "upright", "size"),
    [
        (2, "grwb", (64, 32)),
        (3, "wbgr", (64, 32)),
        (4, "bwrg", (64, 32)),
        (5, "rbgw", (32, 64)),
        (6, "brwg", (32, 64)),
        (7, "wgbr", (32, 64)),
        (8, "gwrb", (32, 64)),
    ],
)
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_is_honoured(file_format: str, tag: int, upright: str, size: tuple[int, int]) -> None:
    image = Image.new("RGB", (64, 32), RED)
    for colour, box in ((GREEN, (32, 0)), (BLUE, (0, 16)), (WHITE, (32, 16))):
        image.paste(colour, (*box, box[0] + 32, box[1] + 16))
    turned = seen(load_image(encode(image, file_format, exif=orientation(tag))).data_url)
    assert (corners(turned), turned.size) == (upright, size)
    assert turned.getexif().get(ExifTags.Base.Orientation, 1) == 1  # else the server would turn it once more


def test_a_turned_photo_stays_a_jpeg_of_nearly_the_same_pixels() -> None:
    photo = Image.radial_gradient("L").convert("RGB")
    data = encode(photo, "JPEG", quality=95, exif=orientation(3))
    loaded = load_image(data)
    assert loaded.data_url.startswith("data:image/jpeg;")
    before, after = Image.open(io.BytesIO(data)).transpose(Image.Transpose.ROTATE_180), seen(loaded.data_url)
    differences = zip(before.tobytes(), after.tobytes(), strict=True)
    assert max(abs(a - b) for a, b in differences) <= 4


def test_a_cmyk_photo_keeps_its_colours_and_loses_its_cmyk_profile() -> None:
    data = encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", icc_profile=b"a profile for inks")
    image = seen(load_image(data).data_url)
    assert image.mode == "RGB"
    assert all(abs(a - b) <= 2 for a, b in zip(image.getpixel((8, 8)), RED, strict=True))
    assert "icc_profile" not in image.info


@pytest.mark.parametrize(
    ("file_format", "options", "note"),
    [
        ("GIF", {}, "images[1]: animated GIF: only the first frame is used"),
        ("PNG", {}, "images[1]: animated PNG: only the first frame is used"),
        ("WEBP", {"lossless": True}, "images[1]: animated WEBP: only the first frame is used"),
        ("TIFF", {}, "images[1]: multi-page TIFF: only the first page is used"),
    ],
)
def test_only_the_first_frame_or_page_is_used_and_that_is_said(
    file_format: str, options: dict[str, object], note: str
) -> None:
    data = encode(FRAMES[0], file_format, save_all=True, append_images=FRAMES[1:], **options)
    loaded = load_image(data, field="images[1]")
    assert loaded.note == note
    assert set(pixels(loaded.data_url)) == {RED}
    assert not getattr(seen(loaded.data_url), "is_animated", False)


def test_a_pil_image_with_a_senseless_transparency_is_refused() -> None:
    image = picture("L")
    image.info["transparency"] = "x"
    assert "colour mode L can't be converted" in refused(image).problem


def test_the_previews_behind_a_phones_jpeg_are_no_further_pictures() -> None:
    data = encode(FRAMES[0], "MPO", save_all=True, append_images=FRAMES[1:])
    loaded = load_image(data)
    assert loaded.data_url == data_url(data, "image/jpeg")
    assert loaded.note is None


def test_of_a_pil_image_the_frame_it_stands_at_is_used() -> None:
    image = Image.open(io.BytesIO(encode(FRAMES[0], "GIF", save_all=True, append_images=FRAMES[1:])))
    image.seek(1)
    loaded = load_image(image)
    assert set(pixels(loaded.data_url)) == {BLUE}
    assert loaded.note == "images[0]: animated GIF: only frame 2 is used"


def test_a_pil_image_is_left_as_it_is() -> None:
    image = row("RGBA", TRANSPARENT, (*RED, 255))
    image.info["exif"] = orientation(6).tobytes()
    before = (image.mode, image.size, image.tobytes(), dict(image.info))
    assert seen(load_image(image).data_url).size == (1, 2)
    assert (image.mode, image.size, image.tobytes(), dict(image.info)) == before


def test_a_pil_image_opened_but_not_yet_read_works(tmp_path: Path) -> None:
    path = tmp_path / "lazy.png"
    path.write_bytes(PNG)
    with Image.open(path) as image:
        assert set(pixels(load_image(image).data_url)) == {BLACK}


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (200, 1), (3, 1)])
def test_tiny_and_long_pictures_the_models_take_are_taken(size: tuple[int, int]) -> None:
    assert seen(load_image(encode(picture(size=size))).data_url).size == size


# What is refused


def png_of(width: int, height: int) -> bytes:
    """A PNG that says it has that size, with no pixel in it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels_missing = chunk(b"IDAT", zlib.compress(b""))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels_missing + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (None, "is a NoneType"),
        (3, "is a int"),
        ({"url": "x"}, "is a dict"),
        (io.BytesIO(PNG), "is a BytesIO"),
        ([PNG], "is a list"),
        ("", "is not a path"),
        ("  \n", "is not a path"),
        ("a\0b.png", "is not a path"),
        ("\ud800.png", "can't be opened"),
        (b"", "is empty (0 bytes)"),
        (b"hello", "is unknown data, not a picture this build can read"),
        (b"\n<!DOCTYPE html><html>", "is a web page"),
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "is SVG"),
        (b"%PDF-1.7\n", "is PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is PostScript"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "is HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", "is a video"),
        (PNG[:12], "the PNG picture is cut off or damaged"),
        (CUT_OFF["PNG"], "the PNG picture is cut off or damaged"),
        (CUT_OFF["JPEG"], "the JPEG picture is cut off or damaged"),
        (CUT_OFF["GIF"], "the GIF picture is cut off or damaged"),
        (CUT_OFF["WEBP"], "the WEBP picture is cut off or damaged"),
        (CUT_OFF["TIFF"], "the TIFF picture is cut off or damaged"),
        (png_of(20_000, 20_000), "has too many pixels"),
        (png_of(8_000, 8_000), "is 8000 x 8000 pixels"),
        (png_of(10_000_000, 1), "longer than 200 times its other side"),
        (encode(picture(size=(201, 1))), "longer than 200 times its other side"),
        (Image.new("RGB", (0, 5)), "is 0 x 5 pixels"),
        (row("F", float("nan")), "aren't all finite numbers"),
        ("file:///etc/hosts", "is not an http(s) or data URL"),
        ("FILE:picture.png", "is not an http(s) or data URL"),
        ("ftp://example.com/a.png", "is not an http(s) or data URL"),
        ("s3://bucket/a.png", "is not an http(s) or data URL"),
        (base64.b64encode(bytes(900)).decode(), "a text of 1,200 characters"),
        ("data:", "is a data URL without base64 data"),
        ("data:image/png;base64", "is a data URL without base64 data"),
        ("data:image/png,%89PNG", "is a data URL without base64 data"),
        ("data:;base64,aGVsbG8=", "holds 'text/plain', not a picture"),
        ("data:text/html;base64,aGVsbG8=", "holds 'text/html', not a picture"),
        ("data:image/png;base64,", "is empty (0 bytes)"),
        ("data:image/png;base64,aGVsbG8=", "is unknown data"),
        ("data:image/png;base64,aGVsbG8", "isn't valid base64"),
        ("data:image/png;base64,aGVs-G8=", "isn't valid base64"),
        ("data:image/png;base64,aGVsbG8=é", "isn't valid base64"),
        ("data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode(), "is SVG"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) < 60 else "",
)
def test_what_can_not_be_used_is_refused_with_field_problem_and_remedy(source: object, problem: str) -> None:
    assert problem in refused(source).problem


def test_a_missing_file_a_directory_an_empty_file_and_a_device_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.png").touch()
    assert refused(tmp_path / "no.png").problem == f"there is no file '{tmp_path / 'no.png'}'"
    assert str(tmp_path) in refused("no.png").remedy  # where a relative path was looked for
    assert refused(tmp_path).problem.endswith("is a directory")
    assert refused("empty.png").problem == "is empty (0 bytes)"
    assert refused("/dev/null").problem.endswith("is not a regular file")
    assert "Not a directory" in refused("empty.png/a.png").problem


def test_an_unreadable_format_lists_the_readable_ones() -> None:
    remedy = refused(b"%PDF-1.7\n").remedy
    assert all(name in remedy for name in ("PNG", "JPEG", "WEBP", "GIF", "TIFF"))
    assert ("AVIF" in remedy) == features.check("avif")


def test_a_closed_pil_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(PNG)
    with Image.open(path) as image:
        pass
    assert "can't be read" in refused(image).problem
    path.write_bytes(CUT_OFF["PNG"])
    assert "can't be read" in refused(Image.open(path)).problem


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_a_picture_cut_off_anywhere_is_either_refused_or_read(file_format: str) -> None:
    data = encode(Image.effect_noise((16, 16), 50), file_format)
    for length in range(len(data)):
        with contextlib.suppress(InputError):
            seen(load_image(data[:length]).data_url).load()


def test_limits_are_limits() -> None:
    assert load_image(PNG, limits=ImageLimits(max_bytes=len(PNG), max_pixels=8)).note is None
    for source in (PNG, data_url(PNG)):
        assert "is larger than" in refused(source, ImageLimits(max_bytes=len(PNG) - 1)).problem
    for source in (PNG, picture()):
        assert "is 4 x 2 pixels" in refused(source, ImageLimits(max_pixels=7)).problem
        assert "longer than 1.5 times" in refused(source, ImageLimits(max_aspect_ratio=1.5)).problem


@pytest.mark.parametrize(
    "url", ["data:" + ";" * 1_000_000, "data:image/png;base64," + "ab " * 300_000], ids=["parameters", "blanks"]
)
def test_a_hostile_data_url_takes_little_more_memory_than_it_has(url: str) -> None:
    tracemalloc.start()
    try:
        refused(url, ImageLimits(max_bytes=100_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(url)  # a few copies; a list of its parts takes more than 16 times


@pytest.mark.parametrize(
    "start", ["data:image/png;charset=utf-8;base64,", "DATA:IMAGE/PNG;BASE64,", "data:image/*;base64,"]
)
def test_a_data_url_may_have_parameters_and_capitals(start: str) -> None:
    assert load_image(start + base64.b64encode(PNG).decode()).data_url == data_url(PNG)


@pytest.mark.parametrize("name", ["a" * 300, "x/" * 400, os.fsdecode(b"\xff.png"), "~/no.png"])
def test_an_odd_file_name_is_refused_as_any_other(name: str) -> None:
    assert "no file" in refused(name).problem or "can't be opened" in refused(name).problem


def test_a_file_name_need_not_be_utf_8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.png")
    path.write_bytes(PNG)
    assert load_image(path).data_url == load_image(str(path)).data_url == data_url(PNG)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert refused(tmp_path / "pipe.png").problem.endswith("is not a regular file")


@pytest.mark.parametrize(
    "mode",
    ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "RGBX", "RGBa", "La", "I;16"],
)
def test_a_pil_image_of_any_mode_is_read(mode: str) -> None:
    assert seen(load_image(Image.new(mode, (3, 2))).data_url).size == (3, 2)


def test_no_byte_of_a_picture_gets_into_errors_logs_or_reprs(caplog: pytest.LogCaptureFixture) -> None:
    secret = base64.b64encode(bytes(range(256)) * 8).decode()
    caplog.set_level(logging.DEBUG)
    texts = [str(refused(source)) for source in (secret, f"data:image/png;base64,{secret}", f"data:text/x,{secret}")]
    texts += [repr(load_image(PNG)), caplog.text]
    texts.append(str(refused(f"data:image/png;base64,{secret[:-1]}")))
    assert not any(secret[at : at + 24] in text for text in texts for at in range(len(secret) - 24))
    assert data_url(PNG)[-24:] not in repr(load_image(PNG))


# Content blocks

BASE64 = base64.b64encode(PNG).decode()


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": BASE64, "mime_type": "image/png"},
        {"type": "image", "base64": BASE64, "mime_type": "image/png", "id": "lc_1", "extras": {}},
        {"type": "image", "url": data_url(PNG)},
        {"type": "image", "source_type": "base64", "data": BASE64, "mime_type": "image/png"},
        {"type": "image", "source_type": "url", "url": data_url(PNG)},
        {"type": "image_url", "image_url": {"url": data_url(PNG), "detail": "high"}},
        {"type": "image_url", "image_url": data_url(PNG)},
    ],
)
def test_every_form_of_image_block_is_read(block: dict[str, object]) -> None:
    assert from_content_block(block, field="messages[0].content[1]", limits=LIMITS).data_url == data_url(PNG)


@pytest.mark.parametrize(
    ("block", "field", "problem"),
    [
        ({"type": "image", "file_id": "file-1"}, "m", "names a stored file by its id"),
        ({"type": "image", "source_type": "id", "id": "file-1"}, "m", "names a stored file by its id"),
        ({"type": "image"}, "m", "doesn't hold exactly one"),
        ({"type": "image", "base64": BASE64, "url": data_url(PNG)}, "m", "doesn't hold exactly one"),
        ({"type": "image", "base64": PNG}, "m.base64", "is a bytes, not a string"),
        ({"type": "image", "base64": BASE64[:-1]}, "m.base64", "isn't valid base64"),
        ({"type": "image", "base64": BASE64, "mime_type": "application/pdf"}, "m", "holds 'application/pdf'"),
        ({"type": "image", "url": "/etc/hosts"}, "m.url", "is not an http(s) or data URL"),
        ({"type": "image", "url": "http://127.0.0.1/a.png"}, "m.url", "not on the public internet"),
        ({"type": "image_url", "image_url": {"url": "picture.png"}}, "m.image_url", "is not an http(s) or data URL"),
        ({"type": "image_url", "image_url": {"url": None}}, "m.image_url", "is a NoneType, not a string"),
        ({"type": "image_url"}, "m.image_url", "is a NoneType, not a string"),
    ],
    ids=range(12),
)
def test_an_image_block_without_a_usable_picture_is_refused(block: dict[str, object], field: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        from_content_block(block, field="m", limits=LIMITS)
    assert raised.value.field == field
    assert problem in raised.value.problem


def test_chat_openai_sends_a_block_as_the_same_data_url() -> None:
    loaded = load_image(PNG)
    message = HumanMessage([to_content_block(loaded.data_url), {"type": "text", "text": "What is this?"}])
    payload = ChatOpenAI(model="small", api_key="none", base_url="http://127.0.0.1:9/v1")._get_request_payload(
        [message]
    )
    image, text = payload["messages"][0]["content"]
    assert image == {"type": "image_url", "image_url": {"url": loaded.data_url}}
    assert text["type"] == "text"
    assert from_content_block(image, field="m").data_url == loaded.data_url
