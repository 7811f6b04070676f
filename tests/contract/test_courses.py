"""What every mechanism asks, plans and takes, text by text as it was at commit 4211f1a, before a course was one value.

Journals hash the texts of questions, and a release that was interrupted goes on only if it asks the same ones. So a
text that changes charges people again. Plans, seconds and bytes are recorded beside them: users decide by them. Texts
stand as a digest after a readable head, in `tests/fixtures/courses.json`; those of a run's journal are compared where it
is replayed (`test_replay`). `python -m tests.contract.test_courses`
records them anew, on purpose; with a folder it writes the whole texts there, to be compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DpsqlError
from dpsql.mechanisms.base import Mechanism, make, registered
from dpsql.privacy.pricing import declared

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows
from .recorded import RECORDED, recorded, short
from .test_mechanisms import NAMES
from .test_replay import BESIDE, CASES, DOMAIN, FIRST, ONE, PAIRS, SUMS, THRESHOLDS, Case, outcome_of

CHARGES = ((Fraction(1, 70), 1000.0), (Fraction(2), 48842.0))
"""ρ, and about how many rows."""
WORKLOADS = (ONE, PAIRS, THRESHOLDS, SUMS, BESIDE)


def said(ask: Callable[[], Any]) -> str:
    """An answer as text; a refusal is its words. Decimals have the digits that every processor agrees on."""
    try:
        text = str(ask())
    except DpsqlError as refused:
        text = f"{type(refused).__name__}: {refused}"
    return re.sub(r"\d+\.\d{9,}(e[-+]\d+)?", lambda number: f"{float(number[0]):.9g}", text)


def questions_of(mechanism: Mechanism, workload: Workload, neighbours: Neighbours) -> str:
    """The kinds, the conversion, and of a pure promise how many questions have which part of ε."""
    found, parts = declared(mechanism.questions(DOMAIN, workload, neighbours)), Counter[tuple[str, str]]()
    for part in found.parts:
        parts[part.kind.name, str(part.share)] += part.count
    return f"{sorted(kind.name for kind in found.kinds)} {found.conversion} {sorted(parts.items())}"


def asked_of(mechanism: Mechanism, workload: Workload, neighbours: Neighbours) -> dict[str, str]:
    """What a mechanism says before it runs."""
    facts = DOMAIN, workload, neighbours
    found = {"questions": said(lambda: questions_of(mechanism, workload, neighbours))}
    found["check"] = said(lambda: mechanism.check(*facts))
    if found["check"] != "None":
        return found  # it is asked nothing more
    found["bytes"] = said(lambda: mechanism.footprint(DOMAIN, workload))
    for rho, rows in CHARGES:
        found[f"plan {rho}"] = said(lambda rho=rho, rows=rows: "\n".join(map(repr, mechanism.plan(*facts, rho, rows))))
        found[f"seconds {rho}"] = said(lambda rho=rho, rows=rows: mechanism.duration(DOMAIN, workload, rows, rho))
        if neighbours.total_is_public:
            found[f"rows {rho}"] = said(lambda rho=rho, rows=rows: mechanism.check_public_rows(*facts, rho, int(rows)))
        if hasattr(mechanism, "enough"):
            found[f"enough {rho}"] = said(lambda rows=rows: mechanism.enough(*facts, rows))
    return found


def variants(name: str) -> dict[str, dict[str, Any]]:
    """The options of the replayed cases, and the sets of defaults; with what an accuracy says of those that name it."""
    cls = registered()[name]
    found = [dict(case.options) for case in replayed() if case.name == name]
    found += [dict(cls.recommended(pure=pure)) for pure in (False, True)]
    found += [{**(cls.published() or {})}, *([{"alpha": 0.9}] if "alpha" in cls.__dataclass_fields__ else [])]
    return {json.dumps(options, sort_keys=True): options for options in found}


def replayed() -> list[Case]:
    """The cases of the replay test."""
    return [case.values[0] for case in CASES]


def foreseen(name: str) -> dict[str, list[str]]:
    """What a mechanism says before it runs, with its options, of all workloads and neighbours."""
    found = defaultdict(list)
    for words, options in variants(name).items():
        mechanism = make(name, options)
        for workload in WORKLOADS if mechanism.takes_linear else WORKLOADS[:3]:
            for neighbours in RELATIONS:
                for what, text in asked_of(mechanism, workload, neighbours).items():
                    found[f"{name} {words} {what.split()[0]}"].append(text)
    return dict(found)


def journal_of(case: Case) -> tuple[list[str], bytes]:
    """The texts of the questions of a run whose noise is of a seed, and its outcome."""
    journal = Journal()
    outcome = outcome_of(case, case.mechanism, Rows(DOMAIN, FIRST), journal, seeded_entropy("one"))
    return [answer.question.text for answer in journal.answers], outcome


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_before_a_run_is_what_it_was(name):
    now = {key: short(texts) for key, texts in foreseen(name).items()}
    then = {key: value for key, value in recorded().items() if key.startswith(f"{name} ")}
    assert {**now, **then} == {**then, **now}


def main(folder: str | None = None) -> None:
    """Record anew; or write whole texts into a folder, with digests of the outcomes, which this machine alone has."""
    names = [name for name, cls in sorted(registered().items()) if find_spec(cls.package or "dpsql")]
    found = {key: texts for name in names for key, texts in foreseen(name).items()}
    for case in replayed():
        if case.name in names:
            found[f"journal {case}"], outcome = journal_of(case)
            found[f"journal {case}"] += [hashlib.sha256(outcome).hexdigest()] * (folder is not None)
    if folder is None:
        texts = json.dumps({key: short(found[key]) for key in sorted(found)}, indent=0, ensure_ascii=False)
        RECORDED.write_text(f"{texts}\n")
    else:
        Path(folder, "courses.txt").write_text(
            "\n".join(f"{key}: {text}" for key in sorted(found) for text in found[key])
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
