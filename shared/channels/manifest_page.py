"""The page of a channel in the docs, made from its manifest and traits: ``docs/channels/telegram.md``.

``python -m shared.channels.manifest_page telegram > docs/channels/telegram.md`` writes it anew; a test compares them.
"""

import sys
from collections.abc import Iterator

from shared.channels import registry
from shared.channels.base import Traits
from shared.channels.downloads import megabytes
from shared.channels.manifest import Manifest, ManifestSetting
from shared.core import accounts

_EXAMPLE = "sales"


def page(manifest: Manifest) -> str:
    """Markdown: the steps from nothing, the settings, what the channel can, and how to check it."""
    return "\n".join(_lines(manifest)) + "\n"


def _lines(manifest: Manifest) -> Iterator[str]:
    title, first = manifest.title, manifest.platform
    further = accounts.name_of(first, _EXAMPLE)
    yield f"# {title}, from nothing"
    yield ""
    yield f"This page is made from the manifest of the channel `{first}`, which `emulator doctor` checks."
    yield ""
    yield from (f"{number}. {step}" for number, step in enumerate(manifest.steps, 1))
    if manifest.connect is not None:
        yield from ("", "The command that connects it:", "", f"<!-- not run: it registers at the real {title} -->")
        yield from ("```console", f"$ {manifest.connect}", "```")
    yield from ("", "## Settings", "")
    yield f"The variables of the first account begin with `{accounts.prefix_of(first)}`. Those of a further one have"
    own = f"{accounts.prefix_of(further)}{manifest.settings[0].name}"
    yield f"its word: the account `{further}` reads `{own}` ([accounts](../accounts.md))."
    yield from ("", "| variable | | what it is |", "|---|---|---|")
    yield from (_row(accounts.prefix_of(first), each) for each in manifest.settings)
    yield from ("", "## What it can", "", "| | |", "|---|---|")
    yield from (f"| {what} | {'yes' if can else 'no'} |" for what, can in _abilities(registry.traits(first)))
    yield from ("", "## Check it", "", "<!-- not run: it asks the real platform -->")
    yield from ("```console", "$ emulator doctor", "$ emulator accounts list", "```", "")
    yield "`emulator doctor` names each setting that is missing or wrong, never its value."
    yield "`emulator accounts list` says why an account is paused."
    yield f"What arrives comes in at `/webhooks/{first}`, and at `/webhooks/{further}` for a further account."


def _abilities(traits: Traits) -> Iterator[tuple[str, bool]]:
    """What an agent can do there, and whether it can; with the tool of agents that does it."""
    files, polls, fetched = traits.files, traits.polls, traits.fetch_bytes
    yield f"Files up to {megabytes(files.most_bytes)} (`send_file`, `send_voice`)" if files else "Files", bool(files)
    yield f"Files that people send, up to {megabytes(fetched)}" if fetched else "Files that people send", bool(fetched)
    yield "Buttons (`ask_user_question`)", traits.has_buttons
    yield "Changes of what was said (`edit_message`)", traits.has_edits
    yield "Reactions (`add_reaction`)", traits.has_reactions
    yield f"Polls of up to {polls.most_options} options (`send_poll`)" if polls else "Polls", bool(polls)
    yield "Stickers (`send_sticker`)", traits.has_stickers
    yield "Topics or threads, with a session for each", traits.has_threads
    yield "Topics or threads that an agent begins (`create_topic`)", traits.makes_topics
    yield "A preview of the answer while the agent works", traits.draft_every_ms is not None


def _row(prefix: str, setting: ManifestSetting) -> str:
    words = [word for word, is_so in (("needed", setting.is_needed), ("secret", setting.is_secret)) if is_so]
    return f"| `{prefix}{setting.name}` | {', '.join(words)} | {setting.help} |"


if __name__ == "__main__":
    sys.stdout.write(page(registry.manifest(sys.argv[1])))
