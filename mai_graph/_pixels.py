"""From any picture Pillow reads to what a vision-language model sees: upright, 8-bit RGB, nothing transparent.

vLLM's own conversion (``vllm.multimodal.image``) agrees on orientation and white background, but cuts 16-bit greys off
at 255. Colour profiles are left aside, as by every model's own image processor.
"""

import math

from PIL import ExifTags, Image, ImageOps

_FULL_16_BIT = 65535


def orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 (upright) to 8; broken or missing EXIF data counts as upright."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # noqa: BLE001  broken EXIF raises almost anything, and says nothing about the pixels
        return 1
    return value if value in range(1, 9) else 1


def upright_rgb(image: Image.Image) -> tuple[Image.Image, str | None]:
    """Turn the picture as its EXIF data says and convert it to 8-bit RGB on white, without metadata.

    Returns:
        A new picture, and how its grey values were read where the picture's mode leaves that open.

    Raises:
        ValueError: Its colour mode can't be converted, or its values aren't numbers.
    """
    note = None
    if image.mode.startswith("I;16"):
        rgb = _from_16_bit(image).convert("RGB")
    elif image.mode in ("I", "F"):
        grey, note = _from_wide(image)
        rgb = grey.convert("RGB")
    else:
        rgb = _on_white(image)
    rgb.info.clear()  # a CMYK profile or a transparent colour would be written into the RGB file
    exif = Image.Exif()  # the orientation alone: other EXIF data may be broken
    exif[ExifTags.Base.Orientation] = orientation(image)
    rgb.info["exif"] = exif.tobytes()
    return ImageOps.exif_transpose(rgb), note


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image.convert("LA").convert("RGBA") if image.mode == "La" else image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    table = [round(value * 255 / _FULL_16_BIT) for value in range(_FULL_16_BIT + 1)]
    transparent = image.info.get("transparency")  # PNG: this one grey value is see-through
    if isinstance(transparent, int) and 0 <= transparent < len(table):
        table[transparent] = 255
    return image.convert("I").point(table, "L")


def _from_wide(image: Image.Image) -> tuple[Image.Image, str]:
    """Modes I (32-bit) and F (float) don't say which value is white: take the scale the values themselves suggest."""
    low, high = image.getextrema()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if not math.isfinite(low) or not math.isfinite(high):
        raise ValueError("its values aren't all finite numbers")
    usual_whites = (255, _FULL_16_BIT) if image.mode == "I" else (1, 255)
    black, white = next(((0, top) for top in usual_whites if low >= 0 and high <= top), (low, high))
    scale = 255 / ((white - black) or 1)
    rounding = 0.5  # the conversion to 8 bits cuts fractions off
    grey = image.convert("F").point(lambda value: value * scale + (rounding - black * scale)).convert("L")
    return grey, f"values {low:g} to {high:g} read with {black:g} as black and {white:g} as white"
