"""Delta tables whose log maps columns, and checkpoints of version 2, as Delta's protocol writes them.

No package that the tests use writes them, so the log is changed here, and deltalake reads it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def change(commit: Path, by: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of a commit."""
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        by(action)
    commit.write_text("\n".join(map(json.dumps, actions)))


def declare(action: dict[str, Any], *features: str) -> None:
    """Let a table have features that readers must know, beside those that it has."""
    if "protocol" in action:
        both = {
            kind: [*(action["protocol"].get(kind) or []), *features] for kind in ("readerFeatures", "writerFeatures")
        }
        action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7} | both


def first_commit(folder: Path) -> Path:
    return folder / "_delta_log" / f"{0:020}.json"


def map_columns(folder: Path, names: Mapping[str, str], mode: str = "name", **numbers: int) -> None:
    """Let the log call columns of the files otherwise; those without a name are columns that were dropped.

    Args:
        folder: of the table.
        names: of columns in the files, what the table calls them.
        mode: how they are found.
        numbers: of columns in the files, where they are not in their order.
    """

    def mapped(action: dict[str, Any]) -> None:
        declare(action, "columnMapping")
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"], 1):
                physical = field["name"]
                field["name"] = names.get(physical)
                field["metadata"] = {
                    "delta.columnMapping.id": numbers.get(physical, number),
                    "delta.columnMapping.physicalName": physical,
                }
            schema["fields"] = [field for field in schema["fields"] if field["name"] is not None]
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] |= {"delta.columnMapping.mode": mode}
            parted = action["metaData"]["partitionColumns"]
            action["metaData"]["partitionColumns"] = [names[physical] for physical in parted]

    change(first_commit(folder), mapped)


def checkpoint_of_version_2(folder: Path, *, sidecars: bool) -> None:
    """Leave of the log a checkpoint of version 2 and the newest commit, in which no older file is."""
    log, version = folder / "_delta_log", deltalake.DeltaTable(folder).version()
    change(first_commit(folder), lambda action: declare(action, "v2Checkpoint"))
    commits = sorted(log.glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    deltalake.DeltaTable(folder).create_checkpoint()
    (log / "_last_checkpoint").unlink()
    whole = log / f"{version:020}.checkpoint.parquet"
    rows = pq.read_table(whole)
    whole.unlink()
    kept: list[dict[str, Any]] = [{"checkpointMetadata": {"version": version}}]
    kept += [action for action in actions if action.keys() & {"protocol", "metaData"}]
    if sidecars:
        (log / "_sidecars").mkdir()
        sidecar = log / "_sidecars" / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows.filter(pc.is_valid(rows["add"])).select(["add"]), sidecar)
        size = sidecar.stat().st_size
        kept.append({"sidecar": {"path": sidecar.name, "sizeInBytes": size, "modificationTime": 1, "tags": {}}})
    else:
        kept += [action for action in actions if "add" in action]
    (log / f"{version:020}.checkpoint.{uuid.uuid4()}.json").write_text("\n".join(map(json.dumps, kept)))
    for commit in commits[:-1]:
        commit.unlink()


def classic_checkpoint(actions: list[dict[str, Any]], sidecar: Path, target: Path) -> None:
    """Write actions of a checkpoint of version 2 as Parquet, where they were in JSON."""
    text, many = pa.string(), pa.map_(pa.string(), pa.string())
    of_format = pa.struct({"provider": text, "options": many})
    types = {
        "checkpointMetadata": pa.struct({"version": pa.int64()}),
        "protocol": pa.struct(
            {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}
            | dict.fromkeys(("readerFeatures", "writerFeatures"), pa.list_(text))
        ),
        "metaData": pa.struct(
            {"id": text, "format": of_format, "schemaString": text, "partitionColumns": pa.list_(text)}
            | {"configuration": many, "createdTime": pa.int64()}
        ),
        "sidecar": pa.struct({"path": text, "sizeInBytes": pa.int64(), "modificationTime": pa.int64(), "tags": many}),
        "add": pq.read_schema(sidecar).field("add").type,
    }
    rows = [{name: action.get(name) for name in types} for action in actions]
    for row in rows:
        if row["metaData"]:
            configuration = list(row["metaData"]["configuration"].items())
            row["metaData"] |= {"format": {"provider": "parquet", "options": []}, "configuration": configuration}
        if row["sidecar"]:
            row["sidecar"] |= {"tags": []}
    pq.write_table(
        pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}), target
    )
