#!/usr/bin/env python3
"""Writes the images in images/ and what Pillow makes of them, images.json; or with --check compares that with new values.

    golden_images.py [--check]

Needs Pillow and numpy; where torchvision is installed, its ImageFolder and its transforms must give the same numbers. Files: every kind
of PNG and JPEG that people have, a few hundred bytes each. `decode`: the pixels as `convert("RGB")` and `convert("L")` give them, row by
row, as hexadecimal digits; `tolerance` of JPEG, whose transform decoders round differently. `scale`: what the transforms of torchvision
give, (C, H, W): fit "crop" is Resize(shorter) and CenterCrop, "stretch" is Resize((H, W)).
"""

import argparse
import io
import json
import pathlib
import struct
import sys
import tempfile
import zlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "images"


def pattern(height, width, channels, seed=0):
    """Waves of other lengths in each channel, and a hard edge: compresses well, and every pixel differs from its neighbours."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    waves = 120 + 90 * np.sin((x * (3 + c) + seed) / 5) * np.cos(y * (2 + c) / 4) + 40 * (x > y)
    return np.clip(np.rint(waves), 0, 255).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, depth, color, interlaced=False, extra=b"", width=None):
    """PNG of kinds that Pillow does not write. rows: (h, w, c) of u8 or u16; with fewer bits (h, bytes, 1), and the width."""
    height, width = rows.shape[0], width or rows.shape[1]
    passes = ((0, 0, 1, 1),)
    if interlaced:
        passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    data = b""
    for top, left, down, right in passes:
        part = rows[top::down, left::right]
        if part.size:
            data += b"".join(b"\0" + row.astype(">u2" if depth == 16 else "u1").tobytes() for row in part)
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def saved(image, kind, **options):
    to = io.BytesIO()
    image.save(to, kind, **options)
    return to.getvalue()


def sixteen(channels):
    """Numbers of 16 bits that 8 bits do not hold."""
    wide = pattern(7, 5, channels).astype(np.int64) * 257 + (np.arange(35).reshape(7, 5, 1) * 37 % 257) - 128
    return np.clip(wide, 0, 65535).astype(np.uint16)


def files():
    """name -> bytes, and of those with 16 bits the pixels that are right: Pillow cuts bits off in place of rounding."""
    grey, rgb = Image.fromarray(pattern(7, 5, 1)[:, :, 0]), Image.fromarray(pattern(7, 5, 3))
    alpha = Image.fromarray(pattern(7, 5, 1, 9)[:, :, 0])
    palette = rgb.quantize(11)
    photo, wide = Image.fromarray(pattern(19, 22, 3)), Image.fromarray(pattern(30, 41, 3))
    rgba, la = rgb.copy(), grey.copy()
    rgba.putalpha(alpha)
    la.putalpha(alpha)
    jpeg = {"quality": 80, "optimize": True}
    cmyk = saved(photo.convert("CMYK"), "JPEG", **jpeg)
    plain = saved(photo, "JPEG", **jpeg)
    turned = Image.Exif()
    turned[0x0112] = 6  # orientation: a quarter turn
    all_files = {
        "grey.png": saved(grey, "PNG"), "rgb.png": saved(rgb, "PNG"),
        "rgba.png": saved(rgba, "PNG"), "grey_alpha.png": saved(la, "PNG"),
        "palette.png": saved(palette, "PNG"), "palette_clear.png": saved(palette, "PNG", transparency=3),
        "bits1.png": saved(grey.convert("1"), "PNG"),
        "bits2.png": png(np.array([[[0b00011011]], [[0b11100000]]], np.uint8), 2, 0, width=3),
        "grey_clear.png": saved(grey, "PNG", transparency=grey.getpixel((2, 2))),
        "rgb_clear.png": saved(rgb, "PNG", transparency=rgb.getpixel((1, 1))),
        "interlaced.png": png(pattern(7, 5, 3), 8, 2, interlaced=True),
        "animated.png": saved(rgb, "PNG", save_all=True, append_images=[Image.fromarray(pattern(7, 5, 3, 50))]),
        "gamma.png": png(pattern(7, 5, 3), 8, 2, extra=chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"tEXt", b"a\0" + b"b" * 40)),
        "grey16.png": png(sixteen(1), 16, 0), "rgb16.png": png(sixteen(3), 16, 2),
        "wide.png": saved(wide, "PNG", optimize=True),
        "tall.png": saved(Image.fromarray(pattern(33, 17, 1)[:, :, 0]), "PNG", optimize=True),
        "plain.jpg": plain, "full.jpg": saved(photo, "JPEG", subsampling=0, **jpeg), "grey.jpg": saved(photo.convert("L"), "JPEG", **jpeg),
        "progressive.jpg": saved(photo, "JPEG", progressive=True, **jpeg), "cmyk.jpg": cmyk,
        "turned.jpg": saved(photo, "JPEG", exif=turned, **jpeg),
        "more_bytes.jpg": plain[:-2] + b"\0\1\2" + plain[-2:],  # superfluous bytes before the end
    }
    right = {}
    for name, channels in (("grey16.png", 1), ("rgb16.png", 3)):
        eight = np.rint(sixteen(channels) / 257).astype(np.uint8)
        right[name] = Image.fromarray(eight[:, :, 0] if channels == 1 else eight)
    return all_files, right


def shorter_side(image, length):
    width, height = image.size
    size = (length, int(length * height / width)) if width <= height else (int(length * width / height), length)
    return image.resize(size, Image.Resampling.BILINEAR)


def cropped(image, size):
    left, top = (int(round((have - want) / 2)) for have, want in zip(image.size, (size[1], size[0])))
    return image.crop((left, top, left + size[1], top + size[0]))


def cover(image, size):
    """The least length of the shorter side at which the image covers the size, as Resize of one side: exact where the size is square."""
    width, height = image.size
    if size[1] * height >= size[0] * width:
        to = (size[1], size[1] * height // width)
    else:
        to = (size[0] * width // height, size[0])
    return image.resize(to, Image.Resampling.BILINEAR)


CASES = [  # file, channels, size, fit, shorter
    ("wide.png", 3, (16, 16), "crop", 0), ("wide.png", 3, (9, 20), "crop", 0), ("wide.png", 1, (20, 9), "crop", 0),
    ("wide.png", 3, (12, 12), "crop", 17), ("wide.png", 1, (8, 13), "stretch", 0), ("wide.png", 1, (45, 50), "stretch", 0),
    ("wide.png", 1, (1, 1), "stretch", 0), ("tall.png", 1, (11, 11), "crop", 0), ("tall.png", 1, (8, 7), "crop", 15),
    ("tall.png", 1, (33, 10), "stretch", 0), ("rgb.png", 3, (5, 5), "crop", 0), ("rgb.png", 3, (7, 5), "crop", 0),
    ("palette.png", 3, (4, 4), "crop", 0),
]


def planes(image):
    values = np.asarray(image)
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


def scaled(image, size, fit, shorter):
    if fit == "stretch":
        return image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return cropped(shorter_side(image, shorter) if shorter else cover(image, size), size)


def check_torchvision(image, size, fit, shorter, expected):
    """The same by the library, where it is installed and can do it: a crop without `shorter` of a square size alone."""
    try:
        from torchvision import transforms
    except ImportError:
        return False
    if fit == "crop" and not shorter and size[0] != size[1]:
        return False
    steps = [transforms.Resize(size)] if fit == "stretch" else [transforms.Resize(shorter or size[0]), transforms.CenterCrop(size)]
    assert np.array_equal(planes(transforms.Compose(steps)(image)), expected), (size, fit, shorter)
    return True


def check_numbering(tree):
    """tree: path -> label, in the order of the samples."""
    try:
        from torchvision.datasets import ImageFolder
    except ImportError:
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in reversed(list(tree)):
            file = pathlib.Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes((FOLDER / "grey.png").read_bytes())
        found = ImageFolder(folder)
        assert [(str(pathlib.Path(path).relative_to(folder)), label) for path, label in found.samples] == list(tree.items()), found.samples
    print("[golden] torchvision numbers the tree the same")


TREE = {"B/b/x.png": 0, "a/1.png": 1, "a/10.png": 1, "a/2.JPG": 1, "a/b/0.png": 1, "a/b-c/9.png": 1, "ä/z.jpeg": 2}


def make(anew):
    all_files, right = files()
    FOLDER.mkdir(exist_ok=True)
    golden = {"decode": [], "scale": [], "tree": []}
    for name, data in all_files.items():
        if anew:
            (FOLDER / name).write_bytes(data)
        image = right.get(name) or Image.open(FOLDER / name)
        golden["decode"].append({"file": name, "size": [image.height, image.width], "tolerance": 2 if name.endswith(".jpg") else 0,
                                 "rgb": image.convert("RGB").tobytes().hex(), "grey": image.convert("L").tobytes().hex()})
    compared = 0
    for name, channels, size, fit, shorter in CASES:
        image = Image.open(FOLDER / name).convert("RGB" if channels == 3 else "L")
        values = planes(scaled(image, size, fit, shorter))
        compared += check_torchvision(image, size, fit, shorter, values)
        golden["scale"].append({"file": name, "channels": channels, "size": size, "fit": fit, "shorter": shorter,
                                "values": values.tobytes().hex()})
    tree = dict(sorted(TREE.items(), key=lambda one: (one[1], *one[0].rsplit("/", 1))))
    check_numbering(tree)
    golden["tree"] = [{"path": path, "label": label} for path, label in tree.items()]
    print(f"[golden] {compared} of {len(CASES)} scaled images were compared with torchvision")
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files as they are")
    check = parser.parse_args().check
    lists = (f' "{key}": [\n' + ",\n".join("  " + json.dumps(one) for one in all_of) + "\n ]" for key, all_of in make(not check).items())
    text = "{\n" + ",\n".join(lists) + "\n}\n"
    path = HERE / "images.json"
    if check:
        if path.read_text() != text:
            print("[golden] images.json differs from new values", file=sys.stderr)
            return 1
    else:
        path.write_text(text)
    print(f"{path.name}: {len(text)} bytes, {len(list(FOLDER.iterdir()))} files of {sum(f.stat().st_size for f in FOLDER.iterdir())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
