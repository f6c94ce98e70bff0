"""``emulator channel``: what a platform has to know of this Postroom, one group of commands for each platform."""

from emulator.cli.commands.channels import discord, telegram
from emulator.cli.commands.frame import group

app = group("Channels: tell a platform where this Postroom is, and show what it knows.")
app.add_typer(telegram.app, name="telegram")
app.add_typer(discord.app, name="discord")
