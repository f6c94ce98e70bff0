"""Skills: which an agent has, and what it may read of them."""

import pytest

from shared.agents import skills
from shared.core.errors import NotFound

INVOICES = """---
name: invoices
description: "How to write an invoice."
---
Add 8.1 percent.
"""


def make(folder, name, text=INVOICES):
    (folder / "skills" / name).mkdir(parents=True)
    (folder / "skills" / name / "SKILL.md").write_text(text)


def test_the_skills_are_found_by_name_with_what_they_are_for(tmp_path):
    make(tmp_path, "reviews", "---\ndescription: >\n  How to review\n  a change.\nlicense: MIT\n---\nBe kind.")
    make(tmp_path, "invoices")
    make(tmp_path, "bare", "No head.")
    assert skills.of_agent(tmp_path) == (
        ("bare", ""),
        ("invoices", "How to write an invoice."),
        ("reviews", "How to review a change."),
    )


def test_what_is_no_skill_is_left_out(tmp_path):
    assert skills.of_agent(tmp_path) == ()
    make(tmp_path, "bad name")
    (tmp_path / "skills/empty").mkdir()
    (tmp_path / "elsewhere").mkdir()
    make(tmp_path / "elsewhere", "linked")
    (tmp_path / "skills/linked").symlink_to(tmp_path / "elsewhere/skills/linked")
    assert skills.of_agent(tmp_path) == ()


def test_a_prompt_never_lists_more_than_fifty(tmp_path):
    for number in range(60):
        make(tmp_path, f"skill{number:02}")
    assert [each.name for each in skills.of_agent(tmp_path)] == [f"skill{number:02}" for number in range(50)]


def test_a_long_description_is_cut():
    found = skills.description(f"---\ndescription: {'word ' * 200}\n---\n")
    assert len(found) == 300
    assert found.endswith("…")


def test_a_skill_and_its_other_files_are_read(tmp_path):
    make(tmp_path, "invoices")
    (tmp_path / "skills/invoices/references").mkdir()
    (tmp_path / "skills/invoices/references/rates.md").write_text("8.1")
    assert skills.read(tmp_path, "invoices") == INVOICES
    assert skills.read(tmp_path, "invoices", "references/rates.md") == "8.1"


@pytest.mark.parametrize("file", ["../../secret", "/etc/hostname", "linked", "missing", "a\0b"])
def test_nothing_outside_the_skill_is_read(tmp_path, file):
    make(tmp_path, "invoices")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "skills/invoices/linked").symlink_to(tmp_path / "secret")
    with pytest.raises(NotFound, match="has no file"):
        skills.read(tmp_path, "invoices", file)


def test_an_unknown_skill_is_answered_with_the_known_ones(tmp_path):
    make(tmp_path, "invoices")
    with pytest.raises(NotFound, match="your skills: invoices"):
        skills.read(tmp_path, "invoice")
