"""What a program on the leash finds in its agent's folder: its own session's files, and what all sessions share."""

import asyncio
import os
import sys

import pytest

from shared.agents import session_homes
from shared.agents.base import Turn
from shared.agents.programs import containment
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes
from shared.core.errors import ConfigInvalid

PLANTS = """
import os, site
for folder in (site.getusersitepackages(), "."):
    os.makedirs(folder, exist_ok=True)
open(os.path.join(site.getusersitepackages(), "usercustomize.py"), "w").write("print('from the home')")
open("colorsys.py", "w").write("print('from the working directory')")
"""
LOADS = "import colorsys; print('mine')"


def turn_of(folder, session="a"):
    return Turn("bot", None, "", {}, folder, session, None, "", (), 1)


@pytest.fixture
def agent(tmp_path):
    folder = tmp_path / "agent"
    folder.mkdir()
    return folder


@pytest.fixture
def run(agent, tmp_path):
    """Runs Python in turns of sessions, in one dispatch: what the programs said."""

    def command(session, source, shared):
        words = [os.path.realpath(sys.executable), "-c", source]
        environment = {"PATH": os.environ["PATH"], "HOME": str(agent)}
        readable = [*containment.readable_paths([sys.executable], [], {}, [])]
        made = ProgramCommand(words, agent, environment, readable)
        return session_homes.at_home(made, turn_of(agent, session), shared)

    def turns(*wanted, shared="write"):
        async def go():
            sandboxes, said = Sandboxes(tmp_path / "sandboxes"), []
            for session, source in wanted:
                made = command(session, source, shared)
                program = await Program.start(made, containment.available(), line_limit=9999, sandboxes=sandboxes)
                said.append((await program.stdout.read() + await program.stderr.read()).decode().strip())
                await program.wait()
                await program.end()
            await sandboxes.close()
            return said

        return asyncio.run(go())

    return turns


on_leash = pytest.mark.skipif(not containment.available().is_leash, reason="there is no leash on this host")


@on_leash
def test_no_program_loads_what_another_session_wrote(run):
    """By its HOME (``~/.local/lib``) or its working directory, into which Python looks first."""
    planted = "from the home\nfrom the working directory\nmine"
    assert run(("a", PLANTS), ("b", LOADS), ("a", LOADS)) == ["", "mine", planted]


@on_leash
def test_a_session_finds_its_files_again_and_others_do_not(run, agent):
    keeps = "open('note', 'w').write('of a')"
    looks = "import os; print(os.path.exists('note') and open('note').read())"
    assert run(("a", keeps), ("b", looks), ("a", looks)) == ["", "False", "of a"]
    assert (agent / "homes" / "a" / "note").read_text() == "of a"


@on_leash
def test_what_a_session_kept_before_it_had_a_home_is_where_it_was(run, agent):
    """The programs' own sessions, by which they continue; and a note in the folder itself, which is read-only now."""
    kept = agent / "sessions" / "a" / "claude" / "projects"
    kept.mkdir(parents=True)
    (kept / "1.jsonl").write_text("said before")
    (agent / "note").write_text("of all")
    looks = f"print(open({str(kept / '1.jsonl')!r}).read(), open('note').read())"
    adds = f"open({str(kept / '1.jsonl')!r}, 'a').write(', and now')"
    assert run(("a", looks), ("a", adds), ("a", looks)) == ["said before of all", "", "said before, and now of all"]


WRITES = """
import os
def attempts():
    yield lambda: open('agent.py', 'w')
    yield lambda: open('docs/new', 'w')
    yield lambda: os.unlink('agent.py')
    yield lambda: os.rename('docs', 'mine')
for attempt in attempts():
    try:
        print('reached', attempt())
    except OSError:
        pass
"""


@on_leash
def test_what_the_operator_put_into_the_folder_is_seen_by_all_and_written_by_none(run, agent):
    (agent / "agent.py").write_text("print('the agent')")
    (agent / "docs").mkdir()
    (agent / "docs" / "page").write_text("a page")
    (agent / ".npmrc").write_text("of an earlier release")
    looks = "import agent, os; print(open('docs/page').read(), os.path.exists('.npmrc'))"
    seen = "the agent\na page False"
    assert run(("a", looks), ("a", WRITES), ("b", looks)) == [seen, "", seen]


@on_leash
def test_a_file_that_the_operator_changed_is_seen_by_the_next_turn(run, agent):
    (agent / "word").write_text("old")
    looks = "print(open('word').read())"
    changes = f"import os; print(os.path.exists({str(agent / 'new')!r}))"
    assert run(("a", looks), ("a", changes)) == ["old", "False"]
    (agent / "new").write_text("new")
    (agent / "new").rename(agent / "word")
    assert run(("a", looks)) == ["new"]


@on_leash
def test_a_link_in_a_home_neither_hides_a_file_of_the_agent_nor_leads_elsewhere(run, agent, tmp_path):
    outside = tmp_path / "outside"
    run(("a", f"import os; os.symlink({str(outside)!r}, 'agent.py'); os.symlink('/etc', 'docs')"))
    (agent / "agent.py").write_text("print('the agent')")
    (agent / "link").symlink_to("/root")
    looks = "import agent, os; print(os.path.islink('docs'), os.path.exists('link'))"
    assert run(("a", looks)) == ["the agent\nTrue False"]
    assert not outside.exists()


SHARED = {"write": ["", "kept"], "read": ["read-only", "nothing"]}


@on_leash
@pytest.mark.parametrize("shared", SHARED)
def test_the_shared_folder_is_one_for_all_sessions_and_read_only_where_the_config_says_so(run, shared):
    writes = """
try:
    open('shared/note', 'w').write('kept')
except OSError as error:
    print('read-only')
"""
    looks = "import os; print(open('shared/note').read() if os.path.exists('shared/note') else 'nothing')"
    assert run(("a", writes), ("b", looks), shared=shared) == SHARED[shared]


def test_a_link_in_the_place_of_a_home_is_refused(agent):
    (agent / "homes").mkdir()
    (agent / "homes" / "a").symlink_to("/etc")
    with pytest.raises(ConfigInvalid, match=r"'a' in .* is a link or no folder"):
        session_homes.at_home(ProgramCommand((), agent, {}), turn_of(agent), "write")
