"""Checkpoints of torch: what is read of them, files that are damaged, and files that mean harm."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import struct
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file

from discorank import use_limits
from discorank.metrics.errors import ModelLoadError
from discorank.metrics.neural.comet.checkpoint import read_checkpoint
from discorank.metrics.neural.models.files.folder_checks import check_model
from discorank.metrics.neural.models.files.torch_checkpoint import (
    Stub,
    TorchCheckpoint,
    check_torch_checkpoint,
    read_torch_checkpoint,
)

GOLDEN = Path(__file__).parents[4] / "golden"
CHECKPOINT = GOLDEN / "docmetrics/models/tiny-comet-ref/checkpoints/model.ckpt"


def assert_equal(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        assert torch.equal(actual[name], value), name


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return made.getvalue()


def pickled(data: bytes, **more: bytes) -> bytes:
    """A checkpoint with this pickle and further entries."""
    return zipped({"a/data.pkl": data, "a/version": b"3\n", **more})


class Tensor:
    """A tensor by the arguments of its making; storage: what the pickle says of the numbers."""

    def __init__(
        self, offset: Any, size: Any, stride: Any, storage: Any = None, more: tuple[Any, ...] = ()
    ) -> None:
        self.storage = Numbers(storage or ("storage", torch.FloatStorage, "0", "cpu", 6))
        self.arguments = (offset, size, stride, False, {}, *more)

    def __reduce__(self) -> tuple[Any, ...]:
        return torch._utils._rebuild_tensor_v2, (self.storage, *self.arguments)


class Numbers:
    def __init__(self, said: Any) -> None:
        self.said = said


class Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        return value.said if isinstance(value, Numbers) else None


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def written(path: Path, value: Any) -> Path:
    """A checkpoint of a value, with one storage of the numbers 0 to 5."""
    made = io.BytesIO()
    Pickler(made, protocol=2).dump(value)
    numbers = struct.pack("<6f", *range(6))
    path.write_bytes(
        zipped({"a/data.pkl": made.getvalue(), "a/version": b"3\n", "a/data/0": numbers})
    )
    return path


def tensors_of(path: Path, value: Any) -> dict[str, Any]:
    checkpoint = read_torch_checkpoint(written(path, value))
    return checkpoint.tensors(checkpoint.root)


# What is read.


@pytest.mark.parametrize("name", ["tiny-comet-ref", "tiny-comet-qe-layer2", "tiny-unite"])
def test_a_golden_checkpoint(name: str) -> None:
    path = GOLDEN / "docmetrics" / "models" / name / "checkpoints" / "model.ckpt"
    checkpoint = read_torch_checkpoint(path)
    expected = torch.load(path, weights_only=True)
    assert checkpoint.root["hyper_parameters"] == expected["hyper_parameters"]
    assert_equal(checkpoint.tensors(checkpoint.root["state_dict"]), expected["state_dict"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Tensor(0, (2, 3), (3, 1)), [[0, 1, 2], [3, 4, 5]]),
        (Tensor(0, (3, 2), (1, 3)), [[0, 3], [1, 4], [2, 5]]),
        (Tensor(5, (), ()), 5),
        (Tensor(6, (0, 2), (1, 1)), []),
        (Tensor(1, (2,), (2,), more=({},)), [1, 3]),
    ],
)
def test_views_of_a_storage(tmp_path: Path, value: Tensor, expected: Any) -> None:
    tensor = tensors_of(tmp_path / "x.ckpt", {"w": value})["w"]
    assert tensor.dtype == torch.float32
    assert tensor.tolist() == expected


def test_tensors_leave_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    tensor = tensors_of(path, {"w": Tensor(0, (6,), (1,))})["w"]
    before = path.read_bytes()
    tensor.fill_(9)
    assert path.read_bytes() == before


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 3, bias=False)
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("passing", torch.arange(4), persistent=False)
        self.scale = torch.nn.Parameter(torch.rand(2).bfloat16())


class Outer(torch.nn.Module):
    settings: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList([Inner(), torch.nn.Dropout(), torch.nn.BatchNorm1d(2)])
        self.tied = self.parts[0]
        self.absent = None


def test_a_pickled_module(tmp_path: Path) -> None:
    module = Outer()
    torch.save(module, tmp_path / "x.ckpt")
    checkpoint = read_torch_checkpoint(tmp_path / "x.ckpt")
    assert_equal(checkpoint.tensors(checkpoint.root), module.state_dict())
    with pytest.raises(ModelLoadError, match=r"\.Outer.*state_dict"):
        read_checkpoint(tmp_path / "x.ckpt")


def test_a_released_layout_of_a_pickled_module() -> None:
    checkpoint = read_torch_checkpoint(GOLDEN / "sescore2" / "tiny_sescore2.ckpt")
    assert isinstance(checkpoint.root, Stub)
    assert checkpoint.root.path == "__main__.Regression_XLM_Roberta"
    assert_equal(
        checkpoint.tensors(checkpoint.root),
        load_file(GOLDEN / "sescore2" / "tiny_sescore2.safetensors"),
    )
    settings = checkpoint.root.attributes["_modules"]["xlm"].attributes["config"].attributes
    assert (settings["hidden_size"], settings["model_type"]) == (32, "xlm-roberta")


def test_objects_of_any_class_stand_beside_weights(tmp_path: Path) -> None:
    counts = defaultdict(int, a=1)
    value = {"w": torch.ones(2), "path": tmp_path, "counts": counts, "of": Call(eval, "1 / 0")}
    torch.save(
        {**value, "old": Call(copyreg.__dict__["_reconstructor"], Outer, object, None)},
        tmp_path / "x",
    )
    root = read_torch_checkpoint(tmp_path / "x").root
    assert repr(root["of"]) == "<builtins.eval>"
    assert root["counts"] == {"a": 1}
    assert isinstance(root["path"], Stub)


# Damaged files.


def rezipped(
    changes: dict[str, Callable[[bytes], bytes]], method: int = zipfile.ZIP_STORED
) -> bytes:
    """The golden archive written anew, entries changed by the last part of their names."""
    with zipfile.ZipFile(CHECKPOINT) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    for end, change in changes.items():
        (name,) = (name for name in entries if name.endswith(f"/{end}"))
        entries[name] = change(entries[name])
    return zipped(entries, method)


DAMAGED: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "a pointer": lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "cut at the end": lambda: CHECKPOINT.read_bytes()[:-100],
    "cut in the middle": lambda: CHECKPOINT.read_bytes()[:5000],
    "cut at the front": lambda: CHECKPOINT.read_bytes()[4000:],
    "a plain pickle": lambda: pickle.dumps({"state_dict": {}}),
    "compressed": lambda: rezipped({}, zipfile.ZIP_DEFLATED),
    "cut in the pickle": lambda: rezipped({"data.pkl": lambda data: data[:-9]}),
    "another order of bytes": lambda: rezipped({"byteorder": lambda _: b"middle"}),
    "no pickle": lambda: zipped({"a/b": b""}),
    "two pickles": lambda: zipped({"a/data.pkl": b"N.", "b/data.pkl": b"N."}),
    "no end": lambda: pickled(b"\x80\x02}"),
    "an empty stack": lambda: pickled(b"\x80\x02."),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.ckpt").write_bytes(DAMAGED[name]())
    with pytest.raises(ModelLoadError, match=r"model\.ckpt") as caught:
        read_checkpoint(tmp_path / "model.ckpt")
    assert "\n" not in str(caught.value)


STORAGE = ("storage", torch.FloatStorage, "0", "cpu")
UNFIT: dict[str, Any] = {
    "rows behind the end": Tensor(0, (2, 3), (4, 1)),
    "a start behind the end": Tensor(5, (2, 3), (3, 1)),
    "a negative start": Tensor(-1, (2,), (1,)),
    "a negative size": Tensor(0, (-2,), (1,)),
    "a negative stride": Tensor(5, (2,), (-1,)),
    "more than memory": Tensor(0, (10**12,), (1,)),
    "one number repeated": Tensor(0, (10**12,), (0,)),
    "a few repeated": Tensor(0, (100, 6), (0, 1)),
    "more than integers": Tensor(0, (0, 10**30), (1, 1)),
    "fewer strides than sizes": Tensor(0, (2, 3), (1,)),
    "a storage larger than the file": Tensor(0, (10**9,), (1,), (*STORAGE, 10**9)),
    "a count of many digits": Tensor(0, (10**9,), (1,), (*STORAGE, 10**5000)),
    "no such storage": Tensor(0, (2,), (1,), (*STORAGE[:2], "1", "cpu", 6)),
    "a name of many digits": Tensor(0, (2,), (1,), (*STORAGE[:2], 10**5000, "cpu", 6)),
    "a storage of tensors": Tensor(0, (2,), (1,), ("storage", torch.Tensor, "0", "cpu", 6)),
    "half a storage": Tensor(0, (2,), (1,), STORAGE[:2]),
    "a storage that is a text": Tensor(0, (2,), (1,), "0"),
    "a list": [1.0],
    "numbers that are nowhere": Call(
        torch._utils._rebuild_meta_tensor_no_storage, torch.float, (10**9,), (1,), False
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_tensors_that_do_not_fit_the_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelLoadError):
        tensors_of(tmp_path / "x.ckpt", {"w": UNFIT[name]})


def modules(*names: str, **attributes: Any) -> Stub:
    made = Stub()
    made.attributes.update({"_modules": dict.fromkeys(names, made), **attributes})
    return made


@pytest.mark.parametrize(
    "part",
    [
        modules("a"),
        modules("a", "b"),
        modules(_parameters=[1]),
        modules(_parameters={1: 1}),
        modules(_buffers={"b": 1}, _non_persistent_buffers_set=7),
        {1: 1},
        {"n" * 2000: 1},
        [],
    ],
)
def test_parts_that_hold_no_tensors(part: Any) -> None:
    with pytest.raises(ModelLoadError):
        TorchCheckpoint(CHECKPOINT, None).tensors(part)


# Files that mean harm.


def changed(place: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """Puts a number behind the last header of an entry in the directory."""

    def change(data: bytes) -> bytes:
        start = data.rindex(b"PK\1\2") + place
        number = struct.pack(f"<{form}", value)
        return data[:start] + number + data[start + len(number) :]

    return change


ZEROS = b"\0" * (1 << 24)
GLOBALS = b"".join(b"ca\nb%d\n" % number for number in range(5000))
HARMFUL: dict[str, tuple[Callable[[], bytes], str]] = {
    "a command": (
        lambda: pickled(pickle.dumps({"state_dict": Call(os.system, "true")}, 2)),
        f"'{os.name}.system'",
    ),
    "a packed pickle": (
        lambda: zipped({"a/data.pkl": b"N." + ZEROS}, zipfile.ZIP_DEFLATED),
        "data.pkl",
    ),
    "a packed storage": (
        lambda: zipped({"a/data.pkl": b"N.", "a/data/0": ZEROS}, zipfile.ZIP_BZIP2),
        "compressed",
    ),
    "an entry of other bytes": (lambda: changed(24, "I", 1 << 30)(pickled(b"N.")), "archive"),
    "entries larger than the file": (
        lambda: changed(20, "I", 1 << 30)(changed(24, "I", 1 << 30)(pickled(b"N."))),
        "more than the file",
    ),
    "one name in two cases": (lambda: zipped({"a/data.pkl": b"N.", "a/DATA.pkl": b"N."}), "name"),
    "zeros in memory": (
        lambda: pickled(pickle.dumps({"x": Call(bytearray, 1 << 40)}, 2)),
        "bytearray",
    ),
    "copies of one number": (
        lambda: pickled(b"\x80\x02ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n."),
        "_rebuild_device_tensor_from_cpu_tensor",
    ),
    "classes without end": (lambda: pickled(GLOBALS + b"N."), "1024"),
    "a far place in memory": (lambda: pickled(b"\x80\x02}r\xff\xff\xff\xff."), "mapping"),
    "deep lists": (lambda: pickled(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."), "mapping"),
    "deep tuples as a key": (
        lambda: pickled(b"\x80\x02})" + b"\x85" * 2_000_000 + b"Ns."),
        "tuples",
    ),
    "deep tuples behind marks": (
        lambda: pickled(b"\x80\x02}(" + b"(" * 5000 + b"N" + b"t" * 5000 + b"Nu."),
        "tuples",
    ),
    "many marks over many values": (
        lambda: pickled(b"\x80\x02" + b"N" * 1_000_000 + b"(t0" * 300_000 + b"."),
        "damaged",
    ),
    "instructions without end": (
        lambda: pickled(b"\x80\x02" + b"N0" * 3_000_000 + b"N."),
        "4194304",
    ),
    "one tuple in many, as a key": (
        lambda: pickled(b"\x80\x02})" + b"2\x86" * 60 + b"Ns."),
        "tuples",
    ),
    "deep marks": (lambda: pickled(b"\x80\x02" + b"(" * 100_000 + b"."), "damaged"),
    "a pickle inside another": (
        lambda: pickled(pickle.dumps({"x": Call(pickle.loads, b"N.")}, 2)),
        "mapping",
    ),
}


MANY_VALUES = ("many marks over many values", "instructions without end")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in MANY_VALUES)) for name in HARMFUL],
)
def test_files_that_mean_harm(tmp_path: Path, name: str) -> None:
    data, problem = HARMFUL[name]
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(data())
    with pytest.raises(ModelLoadError, match=problem):
        read_checkpoint(path)
    if "packed" in name:  # refused before torch is asked
        for check in (check_torch_checkpoint, check_model):
            with pytest.raises(ModelLoadError, match="compressed"):
                check(path)


def test_one_storage_in_many_tensors(tmp_path: Path) -> None:
    numbers = torch.rand(10_000)
    torch.save({str(i): numbers for i in range(4)}, tmp_path / "tied.ckpt")
    checkpoint = read_torch_checkpoint(tmp_path / "tied.ckpt")
    assert len(checkpoint.tensors(checkpoint.root)) == 4
    torch.save({str(i): numbers for i in range(1000)}, tmp_path / "x.ckpt")
    checkpoint = read_torch_checkpoint(tmp_path / "x.ckpt")
    with pytest.raises(ModelLoadError, match="40000000 bytes"):
        checkpoint.tensors(checkpoint.root)


def test_a_bound_on_the_pickle() -> None:
    read_torch_checkpoint(CHECKPOINT)
    with use_limits(file_bytes=1000), pytest.raises(ModelLoadError, match="--max file_bytes="):
        read_torch_checkpoint(CHECKPOINT)
