"""Files of a decision head: both formats are read alike, and what is damaged or hostile is refused."""

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.modernbert import CONFIG, WIDTH, TinyModel, Weights, write_safetensors
from workers.encoder.calibration import calibration_of
from workers.encoder.config import BESIDE, Config, open_tensors
from workers.encoder.errors import UnusableModel
from workers.encoder.head import Head
from workers.encoder.layout import Limits

MODEL = TinyModel()
FIRST = "scorer.3.bias"


def load(path: Path) -> Head:
    """Read a file as a head."""
    file = open_tensors(path)
    return Head.read(file, layers=Config.read(file).layers)


def refused(path: Path) -> str:
    """Return why a file is refused."""
    with pytest.raises(UnusableModel) as caught:
        load(path)
    assert str(path) in str(caught.value) or BESIDE in str(caught.value)
    return caught.value.reason


def changed(path: Path, **tensors: Weights | None) -> Path:
    """Write a head of which some tensors are others, or missing; dots are written as `__`."""
    other = {name.replace("__", "."): weights for name, weights in tensors.items()}
    kept = {n: w for n, w in {**MODEL.head, **other}.items() if w is not None}
    return write_safetensors(path, kept, {"laya.config": json.dumps(CONFIG)})


def raw(path: Path, header: bytes, data: bytes = b"") -> Path:
    """Write a safetensors file of any header."""
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def entry(**said: object) -> bytes:
    """Return a header with one tensor."""
    usual: dict[str, object] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    return json.dumps({FIRST: {**usual, **said}}).encode()


# --- what is right ---


def test_both_formats_hold_the_same_head(tmp_path: Path) -> None:
    rows = np.linspace(-1, 1, 6 * WIDTH).reshape(6, WIDTH).astype(np.float32)
    heads = [load(MODEL.write_head(tmp_path / "h")), load(MODEL.write_npz(tmp_path / "h.npz"))]
    first, second = (head.logits(rows, "choice", (1, 3)) for head in heads)
    assert first == second


def test_both_formats_carry_the_configuration(tmp_path: Path) -> None:
    files = [MODEL.write_head(tmp_path / "h"), MODEL.write_npz(tmp_path / "h.npz")]
    first, second = (Config.read(open_tensors(path)) for path in files)
    assert first == second == Config(Limits(512, 192), 2, calibration_of(CONFIG))


def test_a_configuration_may_lie_beside_the_file(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "model.safetensors", MODEL.head)
    (tmp_path / BESIDE).write_text(json.dumps(CONFIG | {"max_len": 1024, "head_max_len": 256}))
    assert Config.read(open_tensors(path)).limits == Limits(1024, 256)


def test_the_backbone_in_the_same_file_is_not_read(tmp_path: Path) -> None:
    path = changed(tmp_path / "h", encoder__weight=np.full((9, 9), np.nan))
    assert load(path).width == WIDTH


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F64"])
def test_other_float_types_are_widened_or_narrowed(tmp_path: Path, dtype: str) -> None:
    numbers = np.array([1.5, -0.25], np.float32)
    data = {
        "F16": numbers.astype("<f2").tobytes(),
        "BF16": (numbers.view(np.uint32) >> 16).astype("<u2").tobytes(),
        "F64": numbers.astype("<f8").tobytes(),
    }[dtype]
    header = entry(dtype=dtype, shape=[2], data_offsets=[0, len(data)])
    file = open_tensors(raw(tmp_path / "h", header, data))
    assert file.read(FIRST).tolist() == [1.5, -0.25]


# --- safetensors that are not ---


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "a header of 0 bytes in a file of 0"),
        (b"\x01\x02", "in a file of 2"),
        (struct.pack("<Q", 2**63) + b"{}", "a header of 9223372036854775808 bytes in a file of 10"),
        (struct.pack("<Q", 17 << 20) + b"{}", "a header of 17825792 bytes"),
        (struct.pack("<Q", 2) + b"{", "a header of 2 bytes in a file of 9"),
        (struct.pack("<Q", 3) + b"\xff\xfe{", "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "no JSON object"),
        (struct.pack("<Q", 60_000) + b"[" * 60_000, "not JSON"),
    ],
)
def test_a_header_that_is_none_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "h").write_bytes(content)
    assert reason in refused(tmp_path / "h")


def test_a_header_longer_than_any_model_needs_is_refused_though_the_file_holds_it(
    tmp_path: Path,
) -> None:
    with (tmp_path / "h").open("wb") as file:
        file.write(struct.pack("<Q", 64 << 20) + b"{")
        file.truncate(80 << 20)  # sparse
    assert "a header of 67108864 bytes" in refused(tmp_path / "h")


@pytest.mark.parametrize(
    "said",
    [
        {"data_offsets": [0, 5]}, {"data_offsets": [4, 0]}, {"data_offsets": [-4, 0]},
        {"data_offsets": [0, 2**70]}, {"data_offsets": [0]}, {"data_offsets": "x"},
        {"data_offsets": [0.0, 4.0]}, {"shape": [-1]}, {"shape": [True]}, {"shape": None},
        {"dtype": 7},
    ],
)  # fmt: skip
def test_a_tensor_outside_of_its_file_is_refused(tmp_path: Path, said: dict[str, object]) -> None:
    path = raw(tmp_path / "h", entry(**said), b"\0" * 4)
    assert f"its header places the tensor '{FIRST}' outside" in refused(path)


@pytest.mark.parametrize(
    ("said", "reason"),
    [({"dtype": "I8"}, "is of type I8"), ({"shape": [2**40]}, "has 4 bytes for")],
)
def test_a_tensor_that_is_not_what_it_says_is_refused(
    tmp_path: Path, said: dict[str, object], reason: str
) -> None:
    file = open_tensors(raw(tmp_path / "h", entry(**said), b"\0" * 4))
    with pytest.raises(UnusableModel, match=reason):
        file.read(FIRST)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("write", [MODEL.write_head, MODEL.write_npz])
def test_a_file_cut_off_is_refused(
    tmp_path: Path, write: Callable[[Path], Path], kept: float
) -> None:
    path = write(tmp_path / "h.npz")
    os.truncate(path, int(path.stat().st_size * kept))
    assert "not a whole" in refused(path)


# --- heads that are none ---


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = changed(tmp_path / "h", head__layers__1__norm2__bias=None)
    assert "'head.layers.1.norm2.bias' is missing" in refused(path)


def test_a_file_without_any_head_says_so(tmp_path: Path) -> None:
    config = {"laya.config": json.dumps(CONFIG)}
    path = write_safetensors(tmp_path / "h", {"encoder.weight": np.ones((2, 2))}, config)
    assert "no decision head" in refused(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("scorer__1__weight", (WIDTH, WIDTH + 1)), ("scorer__3__bias", (2,)), ("scorer__0__bias", ())],
)
def test_a_wrong_shape_is_named_beside_the_right_one(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    reason = refused(changed(tmp_path / "h", **{name: np.ones(shape)}))
    assert f"is {shape} and must be" in reason


@pytest.mark.parametrize("shape", [(), (3,), (3, 0), (2, WIDTH), (3, 100_000), (3, 200)])
def test_a_width_no_head_has_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert "type_emb.weight" in refused(changed(tmp_path / "h", type_emb__weight=np.ones(shape)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_none_is_refused(tmp_path: Path, value: float) -> None:
    weights = np.ones(WIDTH)
    weights[7] = value
    reason = refused(changed(tmp_path / "h", scorer__0__bias=weights))
    assert reason == "the tensor 'scorer.0.bias' holds NaN or infinity"


# --- configurations that are none ---


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"max_len": 10**9}, "max_len is 1000000000 and must be 16 to 8192"),
        ({"max_len": "512"}, "max_len is '512'"),
        ({"max_len": True}, "max_len is True"),
        ({"max_len": 100}, "head_max_len is 192 and must be 8 to 100"),
        ({"head_layers": -1}, "head_layers is -1"),
    ],
)
def test_a_configuration_out_of_range_is_refused(
    tmp_path: Path, config: dict[str, object], reason: str
) -> None:
    assert reason in refused(MODEL.write_head(tmp_path / "h", config))


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 60_000])
def test_a_configuration_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    path = write_safetensors(tmp_path / "h", MODEL.head, {"laya.config": text})
    assert "its configuration is no" in refused(path)


def test_no_configuration_at_all_is_refused_and_says_where_it_could_be(tmp_path: Path) -> None:
    reason = refused(write_safetensors(tmp_path / "h", MODEL.head))
    assert "laya.config" in reason
    assert BESIDE in reason


# --- npz that are none ---


def archive(path: Path, **members: bytes) -> Path:
    """Write a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name + ".npy", content)
    return path


def array_file(shape: str, descr: str = "<f4", data: bytes = b"\0" * 4) -> bytes:
    """Return an npy file of any header."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no array", array_file("(10**12,)"), array_file("(1000000000000,)"),
        array_file("(-1,)"), array_file("(2,)"), array_file("(1,)", "|O8"),
        array_file("(1,)").replace(b"\x01\x00", b"\x02\x00", 1),
    ],
)  # fmt: skip
def test_an_array_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "not a whole npz file" in refused(archive(tmp_path / "h.npz", x=content))


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    arrays: dict[str, Any] = dict(MODEL.head) | {
        "laya.config": np.array(json.dumps(CONFIG)),
        FIRST: np.array([Trap()], object),
    }
    np.savez(tmp_path / "h.npz", **arrays)
    assert "not a whole npz file" in refused(tmp_path / "h.npz")
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none")
    assert "no regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused(tmp_path / "pipe")
