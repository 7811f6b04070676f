"""Sentences and tables that somebody reads once: see "English" in docs/developers/documentation.md."""

from __future__ import annotations

import re

import pytest

from .prose import ROOT, cells, sentences, written

MOST_WORDS, MOST_CHARACTERS = 30, 120


def words(sentence: str) -> int:
    """As one counts them: signs between words are none."""
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def long_sentences(text: str) -> list[str]:
    return [one for one in sentences(text) if words(one) > MOST_WORDS]


def long_cells(text: str) -> list[str]:
    """Code is not counted: names of tests are as long as they are."""
    return [one for one in cells(text) if len(re.sub(r"`[^`]*`", "x", one)) > MOST_CHARACTERS]


@pytest.mark.parametrize("page", written())
def test_no_sentence_and_no_cell_is_too_long(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert long_sentences(text) == []
    assert long_cells(text) == []


def test_what_is_too_long_is_noticed():
    """The broken twin."""
    long = " ".join(["word"] * 31)
    assert long_sentences(f"# A page\n\nShort. {long.capitalize()}.\n\n- {long}\n") == [f"{long.capitalize()}.", long]
    assert long_sentences(f"```text\n{long}\n```\n\n`{long}` is code, and [a link]({long}).\n") == []
    assert long_cells(f"| a | {'b' * 121} |\n") == ["b" * 121]
