"""Kinds of damage to prompts, saved models and recipes: functions of a path, by name."""

import json
import os
import shutil
import struct
import zipfile
from functools import cache
from io import BytesIO

import numpy as np
from safetensors.numpy import load_file, save_file


def replaced(content):
    return lambda path: path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def removed(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def made_a_folder(path):
    path.unlink()
    path.mkdir()


def made_a_pipe(path):
    """Nobody writes to it, so that whoever reads it waits for ever."""
    path.unlink()
    os.mkfifo(path)


DIGITS = 5000 * "9"
"""A number of more digits than Python reads."""


def arrays(**changes):
    """A prompt file with some of its arrays changed, or left out by None."""

    def damage(path):
        whole = dict(np.load(path))
        for name, change in changes.items():
            whole[name] = change(whole[name])
        np.savez(path, **{name: a for name, a in whole.items() if a is not None})

    return damage


def put(value):
    def change(array):
        array = array.copy()
        array.flat[0] = value
        return array

    return change


def huge_header(path):
    """A header that promises 80 GB."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 100000), }\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("phi", "y", "phi_query"):
            archive.writestr(f"{name}.npy", array)


def bomb(path):
    path.write_bytes(zeros())


@cache
def zeros():
    """126 megabytes of zeros in a fraction of one."""
    file_of_it = BytesIO()
    with zipfile.ZipFile(file_of_it, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("phi", "y", "phi_query"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f8", "fortran_order": False, "shape": (2, 2**19, 5)}
                )
                for _ in range(40):
                    file.write(bytes(2**20))
    return file_of_it.getvalue()


def shape_of_truths(path):
    """A header whose shape Python takes for numbers, and NumPy does not."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (True, 1, 1), }\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("phi", "y", "phi_query"):
            archive.writestr(f"{name}.npy", array)


PROMPTS = {
    "missing": removed,
    "a folder": made_a_folder,
    "empty": replaced(b""),
    "text": replaced(b"phi,y\n1,2\n"),
    "cut": cut,
    "an .npy file": lambda path: path.write_bytes((path.parent / "U.npy").read_bytes()),
    "no zip archive inside": replaced(b"PK\x03\x04" + bytes(200)),
    "without y": arrays(y=lambda a: None),
    "Python objects": arrays(y=lambda a: np.array([[[None]]], dtype=object)),
    "strings": arrays(y=lambda a: a.astype(str)),
    "complex numbers": arrays(phi=lambda a: a + 1j),
    "one axis too few": arrays(phi=lambda a: a[0]),
    "one axis too many": arrays(phi_query=lambda a: a[..., None]),
    "no support": arrays(phi=lambda a: a[:, :0], y=lambda a: a[:, :0]),
    "no query": arrays(phi_query=lambda a: a[:, :0]),
    "fewer targets": arrays(y=lambda a: a[:, :3]),
    "another batch": arrays(phi_query=lambda a: a[:1]),
    "queries of other features": arrays(phi_query=lambda a: a[..., :2]),
    "NaN": arrays(phi=put(np.nan)),
    "infinite": arrays(y=put(np.inf)),
    "beyond floating point": arrays(phi=lambda a: 1e200 * a),
    "a shape of 80 GB": huge_header,
    "a shape of truth values": shape_of_truths,
    "a zip bomb": bomb,
}
OF_ANOTHER_MODEL = {
    "other features": arrays(phi=lambda a: a[..., :2], phi_query=lambda a: a[..., :2]),
    "other outputs": arrays(y=lambda a: np.concatenate([a, a], -1)),
    "outside the domain": arrays(phi=lambda a: 10 * a),
}


def config(**changes):
    """A config.json with other entries; one that is None is left out."""

    def damage(model):
        path = model / "config.json"
        values = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({n: v for n, v in values.items() if v is not None}))

    return damage


def file_of(name, damage):
    return lambda model: damage(model / name)


def weights(change):
    def damage(model):
        path = model / "model.safetensors"
        found = load_file(path)
        change(found)
        save_file(found, path)

    return damage


def nested(model):
    (model / "config.json").write_text('{"format": ' + "[" * 10**5)


ANY_MODEL = "neither certificate nor recipe"
"""A transformer that nothing says how to ask; inspect shows it as well as any."""

MODELS = {
    "missing": removed,
    "without config.json": file_of("config.json", removed),
    "without weights": file_of("model.safetensors", removed),
    "config.json empty": file_of("config.json", replaced(b"")),
    "config.json a list": file_of("config.json", replaced(b"[1]")),
    "config.json binary": file_of("config.json", replaced(b"\xff\xfe\x00")),
    "config.json nested deeply": nested,
    "config.json of 5000 digits": file_of(
        "config.json", replaced(f'{{"n_embd": {DIGITS}}}'.encode())
    ),
    "of another format": config(format="other/3"),
    "weights cut": file_of("model.safetensors", cut),
    "weights empty": file_of("model.safetensors", replaced(b"")),
    "weights a text": file_of("model.safetensors", replaced(b"not numbers" * 9)),
    "a header of 2^60 bytes": file_of("model.safetensors", replaced(struct.pack("<Q", 2**60))),
    "NaN in weights": weights(lambda w: w["unembed.b"].fill(np.nan)),
    "a tensor too few": weights(lambda w: w.pop("unembed.b")),
    "a tensor too many": weights(lambda w: w.update(more=np.ones(3))),
    "10^9 layers": config(n_layers=10**9),
    "1e9 layers": config(n_layers=1e9),
    "true layers": config(n_layers=True),
    "10^7 channels": config(d_model=10**7),
    "10^30 channels": config(d_model=10**30),
    "-3 channels": config(d_model=-3),
    "no channels": config(d_model=0),
    "neurons in words": config(d_mlp="many"),
    "no d_in": config(d_in=None),
    "another dtype": config(dtype="float16"),
    "an infinite scale": config(attn_scale=float("inf")),
    "a loop out of range": config(loop=[0, 10**6]),
    ANY_MODEL: config(certificate=None, recipe=None),
}


def entry(part, *path, value):
    """A config.json with another value deep in one of its tables."""

    def damage(model):
        whole = json.loads((model / "config.json").read_text())
        table = whole[part]
        for name in path[:-1]:
            table = table[name]
        table[path[-1]] = value
        config(**{part: whole[part]})(model)

    return damage


ONE_AXIS = "a projection of one axis"
SHOWN = (ANY_MODEL, ONE_AXIS)
"""What `inspect` shows as it stands: it runs nothing."""

CERTIFICATES = {
    ONE_AXIS: entry("certificate", "kernel", "projection", value=[1, 2, 3]),
    "a certificate of words": config(certificate="cg"),
    "an empty certificate": config(certificate={}),
    "sites of words": config(sites="here"),
    "sites without layers": config(sites={"predictions": [], "states": {}}),
}
RECIPES = {
    "a recipe of words": config(recipe="linear"),
    "an empty recipe": config(recipe={}),
    "scores of words": config(scores="good"),
    "10^30 supports": entry("recipe", "task", "supports", value=10**30),
}
TOML = {
    "missing": removed,
    "a folder": made_a_folder,
    "empty": replaced(b""),
    "binary": replaced(b"\xff\xfe\x00\x01"),
    "cut in a line": replaced(b'name = "r"\n[task\n'),
    "a pipe": made_a_pipe,
    "5000 digits": replaced(f'name = "r"\nseed = {DIGITS}\n[task]\nname = "linear"\n'.encode()),
    "an unknown key": replaced(b'name = "r"\ncolour = 1\n[task]\nname = "linear"\n'),
    "an unknown task": replaced(b'name = "r"\n[task]\nname = "lineer"\n'),
    "words for numbers": replaced(b'name = "r"\n[task]\nname = "linear"\nfeatures = "three"\n'),
    "10^30 features": replaced(
        b'name = "r"\n[task]\nname = "linear"\nfeatures = 1' + 30 * b"0" + b"\n"
    ),
    "nested deeply": replaced(b"a = " + 10**4 * b"["),
    "10^30 prompts in a batch": replaced(
        b'name = "r"\n[task]\nname = "linear"\n[training]\nbatch = 1' + 30 * b"0" + b"\n"
    ),
    "no features": replaced(b'name = "r"\n[task]\nname = "linear"\nfeatures = 0\n'),
}
