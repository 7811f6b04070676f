"""Compile `udfs/shim.c` into the DuckDB extension that travels inside the wheel.

The C compiler of the machine is used if there is one (`CC`, `cc`, `gcc`, `clang`), else the one of the `ziglang`
wheel, so that an install needs no compiler. For another platform set `DPSQL_TARGET` to one of `TARGETS`: ziglang
compiles for all of them, and `.ci/wheels` makes a wheel of each.

A DuckDB extension is a shared library with a footer of 512 bytes: eight fields of 32 bytes, the last one first, then
256 bytes for a signature that is left empty. The footer names the platform, and DuckDB loads no other one's. The
library is called through ctypes, so one wheel serves every Python.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("udfs") / "shim.c"
EXTENSION = Path("udfs") / "native" / "dpsql.duckdb_extension"
C_API_VERSION = "v1.2.0"
EXTENSION_VERSION = "v0.1.0"


class Target(NamedTuple):
    """What a platform of DuckDB is called by ziglang and in the name of a wheel, and how its libraries begin."""

    zig: str
    wheel: str
    magic: bytes


_ELF, _MACH_O, _PE = b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ"
TARGETS = {
    "linux_amd64": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", _ELF),
    "linux_arm64": Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64", _ELF),
    "osx_amd64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64", _MACH_O),
    "osx_arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64", _MACH_O),
    "windows_amd64": Target("x86_64-windows-gnu", "win_amd64", _PE),
    "windows_arm64": Target("aarch64-windows-gnu", "win_arm64", _PE),
}
"""By DuckDB's names of the platforms."""


def c_compiler() -> list[str] | None:
    """The machine's C compiler as an argument list, or None."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    return None


def wanted() -> str | None:
    """The platform to compile for, None for this one."""
    target = os.environ.get("DPSQL_TARGET") or None
    if target is not None and target not in TARGETS:
        raise ValueError(f"DPSQL_TARGET is {target!r}: give one of {', '.join(TARGETS)}")
    return target


def this_platform() -> str:
    """DuckDB's name of this platform."""
    system = {"linux": "linux", "darwin": "osx", "win32": "windows"}[sys.platform]
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    return f"{system}_{machine}"


def wheel_platform() -> str:
    """The platform in the wheel's name. On Linux a library for this machine may need its own C library."""
    target = wanted()
    if target is None and sys.platform == "linux":
        return f"linux_{platform.machine()}"
    return TARGETS[target or this_platform()].wheel


def compiler() -> list[str]:
    """The compiler and the flags that choose the platform."""
    target, own, zig = wanted(), c_compiler(), [sys.executable, "-m", "ziglang", "cc"]
    if target is None and own:
        return [*own, "-mmacosx-version-min=11.0"] if sys.platform == "darwin" else own
    if target is None and sys.platform == "linux":
        return zig
    return [*zig, "-target", TARGETS[target or this_platform()].zig]


def footer(platform_name: str) -> bytes:
    """The 512 bytes that make a shared library a DuckDB extension of the stable C API."""
    fields = ["", "", "", "C_STRUCT", EXTENSION_VERSION, C_API_VERSION, platform_name, "4"]
    return b"".join(field.encode().ljust(32, b"\0") for field in fields) + bytes(256)


def compile_shim(root: Path) -> Path:
    """Compile and pack the extension under `root`; returns its path."""
    name = wanted() or this_platform()
    flags = ["-shared", "-O2", "-g0", "-std=gnu11", *([] if name.startswith("windows") else ["-fPIC"])]
    extension = root / EXTENSION
    extension.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:  # where an import library may be left too
        library = Path(folder) / "dpsql.library"
        subprocess.run([*compiler(), *flags, "-o", str(library), str(root / SOURCE)], check=True)
        extension.unlink(missing_ok=True)  # a process that has the old one loaded keeps it
        extension.write_bytes(library.read_bytes() + footer(name))
    return extension


class ShimHook(BuildHookInterface[Any]):
    """The hatch build hook: one native file per wheel, so the wheel is specific to its platform."""

    def dependencies(self) -> list[str]:
        """`ziglang` only where no C compiler is found, or for another platform."""
        return [] if c_compiler() and wanted() is None else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected; an sdist carries the source alone."""
        if self.target_name != "wheel":
            return
        extension = compile_shim(Path(self.root))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel_platform()}"
        build_data["artifacts"].append(str(extension.relative_to(self.root)).replace(os.sep, "/"))


def inspected(wheel: Path) -> str:
    """The platform of a wheel, where its name, its tag, its library and its footer agree on one.

    Raises:
        ValueError: they do not.
    """
    with zipfile.ZipFile(wheel) as files:
        library = files.read(f"dpsql/{EXTENSION.as_posix()}")
        (tag,) = [files.read(name) for name in files.namelist() if name.endswith(".dist-info/WHEEL")]
    for name, target in TARGETS.items():
        named = wheel.name.endswith(f"-py3-none-{target.wheel}.whl")
        tagged = f"Tag: py3-none-{target.wheel}\n".encode() in tag
        packed = library.endswith(footer(name)) and library.startswith(target.magic) and b"dpsql_init_c_api" in library
        if named and tagged and packed:
            return name
    raise ValueError(f"{wheel.name}: its name, its tag, its library and its footer are not of one platform")


if __name__ == "__main__":
    found = [inspected(Path(argument)) for argument in sys.argv[1:]]
    if sorted(found) != sorted(TARGETS):
        raise SystemExit(f"there are wheels of {found}, not one for each of {[*TARGETS]}")
    sys.stdout.write(f"one wheel for each of {', '.join(TARGETS)}\n")
