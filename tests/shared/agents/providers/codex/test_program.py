"""Where codex is on a machine."""

import platform

import pytest

from shared.agents.providers.codex import program


def made(path, text="#!/bin/sh\nexit 0\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_behind_the_script_of_npm_is_the_program_of_this_machine(tmp_path):
    modules = tmp_path / "node_modules"
    script = made(modules / "@openai/codex/bin/codex.js", "#!/usr/bin/env node\n")
    arch, triple = program._TRIPLES[platform.machine()]
    vendor = modules / f"@openai/codex-linux-{arch}/vendor/{triple}"
    real = made(vendor / "bin/codex")
    (vendor / "codex-path").mkdir()
    link = tmp_path / "codex"
    link.symlink_to(script)
    assert program.located(link) == (real, (vendor,), vendor / "codex-path")


def test_a_link_to_the_program_of_a_package_finds_its_helpers(tmp_path):
    """As ``infra/agents.sh`` links it."""
    vendor = tmp_path / "codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl"
    real = made(vendor / "bin/codex")
    made(vendor / "codex-package.json", "{}")
    (vendor / "codex-path").mkdir()
    link = tmp_path / "codex-link"
    link.symlink_to(real)
    assert program.located(link) == (real, (vendor,), vendor / "codex-path")


def test_a_program_that_is_no_script_is_itself(tmp_path):
    path = made(tmp_path / "codex")
    assert program.located(path) == (path, (path,), None)


@pytest.mark.parametrize(("code", "starts"), [(0, True), (2, False)])
def test_an_app_server_is_there_if_it_starts_and_ends_with_its_input(tmp_path, code, starts):
    path = made(tmp_path / "codex", f'#!/bin/sh\ncat >/dev/null; [ "$1" = app-server ] && exit {code}\n')
    assert program.has_app_server(program.located(path)) is starts


def test_a_program_that_is_not_there_says_how_to_install_it(tmp_path):
    found = program.look(str(tmp_path / "codex"))
    assert found.path is None
    assert f"npm install -g @openai/codex@{program.TESTED}" in found.why_not
