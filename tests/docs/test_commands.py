"""Each command block of the documentation is run by a test, or says in a comment before it why it is not run.

Blocks of ``emulator`` commands that say nothing are run by ``tests/e2e/test_examples.py``.
"""

import re

import pytest

from tests.docs.pages import COMMANDS, ROOT, blocks

pytestmark = pytest.mark.any_python
BLOCKS = [(page, block) for page in COMMANDS for block in blocks(page)]


def test_blocks_are_found():
    assert len(BLOCKS) > 60


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page.name}-{block.commands[0]}" for page, block in BLOCKS])
def test_a_block_is_run_or_says_why_not(page, block):
    by = re.fullmatch(r"run by (tests/[\w/.]+)", block.mark)
    if by:
        assert (ROOT / by[1]).exists()
    elif not block.mark.startswith("not run: "):
        assert (block.mark, block.is_of_emulator) == ("", True), (
            f"{page}: say '<!-- not run: REASON -->' before the block"
        )
