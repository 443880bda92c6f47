"""Pictures for tests, and what an error about one must have."""

import base64
import io

import pytest
from PIL import Image

from mai_graph.errors import InputError
from mai_graph.images import ImageLimits, load_image


def encode(image: Image.Image, file_format: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


def picture(mode: str = "RGB", size: tuple[int, int] = (4, 2)) -> Image.Image:
    return Image.new(mode, size)


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


PNG = encode(picture())
PATIENT = {"timeout_s": 120}  # a busy machine must not fail a test
LIMITS = ImageLimits(**PATIENT)


def refused(source: object, limits: ImageLimits | None = None) -> InputError:
    with pytest.raises(InputError) as raised:
        load_image(source, field="images[3]", limits=limits or LIMITS)  # type: ignore[arg-type]
    error = raised.value
    assert error.field == "images[3]"
    assert error.problem
    assert error.remedy
    assert len(str(error)) < 400
    return error
