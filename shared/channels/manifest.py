"""What somebody needs to know to set a channel up: its settings and steps.

Each adapter's module has one, as ``MANIFEST``. The page of the channel in the docs, ``emulator doctor`` and
``emulator channel`` all read it, so that they can't disagree.
"""

import msgspec


class ManifestSetting(msgspec.Struct, frozen=True):
    """A setting that the operator gives in the environment.

    Attributes:
        name: without the prefix of the account, such as ``BOT_TOKEN``.
        help: one line: what it is, and where it is found.
        is_secret: it is never shown.
    """

    name: str
    help: str
    is_needed: bool = True
    is_secret: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """How a channel is set up.

    Attributes:
        title: the platform as people write it.
        settings: in the order in which the steps come to them.
        steps: what to do, in order, each a sentence in the imperative; Markdown.
        username_setting, bot_id_setting: the settings that say which bot it is; None: none does.
        connect: the command that ends the set-up; None: the steps are all.
    """

    platform: str
    title: str
    settings: tuple[ManifestSetting, ...]
    steps: tuple[str, ...]
    connect: str | None = None
    username_setting: str | None = None
    bot_id_setting: str | None = None
