"""Compile `udfs/shim.c` into the DuckDB extension that travels inside the wheel.

The C compiler of the machine is used if there is one (`CC`, `cc`, `gcc`, `clang`), else the one of the `ziglang`
wheel, so that an install needs no compiler. A DuckDB extension is a shared library with a footer of 512 bytes: eight
fields of 32 bytes, the last one first, then 256 bytes for a signature that is left empty.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("udfs") / "shim.c"
TARGET = Path("udfs") / "native" / "dpsql.duckdb_extension"
C_API_VERSION = "v1.2.0"
EXTENSION_VERSION = "v0.1.0"


def c_compiler() -> list[str] | None:
    """The machine's C compiler as an argument list, or None."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    return None


def duckdb_platform() -> str:
    """DuckDB's name of this platform: linux_amd64, linux_arm64, osx_amd64, osx_arm64, windows_amd64, …"""
    system = {"linux": "linux", "darwin": "osx", "win32": "windows"}[sys.platform]
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    return f"{system}_{machine}"


def footer(platform_name: str) -> bytes:
    """The 512 bytes that make a shared library a DuckDB extension of the stable C API."""
    fields = ["", "", "", "C_STRUCT", EXTENSION_VERSION, C_API_VERSION, platform_name, "4"]
    return b"".join(field.encode().ljust(32, b"\0") for field in fields) + bytes(256)


def compile_shim(root: Path) -> Path:
    """Compile and pack the extension under `root`; returns its path."""
    target = root / TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    library = target.with_suffix(".library")
    compiler = c_compiler() or [sys.executable, "-m", "ziglang", "cc"]
    flags = ["-shared", "-O2", "-std=gnu11", *([] if sys.platform == "win32" else ["-fPIC"])]
    subprocess.run([*compiler, *flags, "-o", str(library), str(root / SOURCE)], check=True)
    target.unlink(missing_ok=True)  # a process that has the old one loaded keeps it
    target.write_bytes(library.read_bytes() + footer(duckdb_platform()))
    library.unlink()
    return target


class ShimHook(BuildHookInterface[Any]):
    """The hatch build hook: one native file per wheel, so the wheel is specific to its platform."""

    def dependencies(self) -> list[str]:
        """`ziglang` only where no C compiler is found."""
        return [] if c_compiler() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected; an sdist carries the source alone."""
        if self.target_name != "wheel":
            return
        target = compile_shim(Path(self.root))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(str(target.relative_to(self.root)).replace(os.sep, "/"))
