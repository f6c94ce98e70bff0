"""discord.py against the fake Discord: it logs in, follows the Gateway, works in channels. Prints one JSON object."""

import asyncio
import io
import json
import os

import discord
from discord import app_commands
from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

# discord.py has Discord's two addresses built in, where a proxy would stand.
Route.BASE = os.environ["DISCORD_API_BASE"]
DiscordWebSocket.DEFAULT_GATEWAY = URL(os.environ["GATEWAY"])
CHANNEL = int(os.environ["CHANNEL"])
found: dict = {}


class Client(discord.Client):
    """Answers the first typed message with all that a bot does, and the first command."""

    def __init__(self) -> None:
        super().__init__(intents=discord.Intents.default())
        self.tree = app_commands.CommandTree(self)
        self.answered = asyncio.Event()
        self.worked = asyncio.Event()

    async def on_ready(self) -> None:
        found["me"] = self.user.name
        found["guilds"] = [guild.name for guild in self.guilds]
        info = await self.application_info()
        found["app"] = info.name
        synced = await self.tree.sync()
        found["commands"] = [command.name for command in synced]
        print("ready", flush=True)

    async def on_message(self, message: discord.Message) -> None:
        if message.author.bot or self.worked.is_set():
            return
        found["heard"] = [message.content, message.author.global_name]
        await self.work(message)
        self.worked.set()

    async def work(self, message: discord.Message) -> None:
        file = discord.File(io.BytesIO(b"abc"), filename="a.txt")
        reply = await message.reply("an answer", file=file, mention_author=False)
        found["file"] = (await reply.attachments[0].read()).decode()
        found["reply_to"] = reply.reference.message_id == message.id
        await message.add_reaction("👀")
        async with message.channel.typing():
            edited = await reply.edit(content="edited")
        found["edited"] = [edited.content, len(edited.attachments)]
        again = await message.channel.fetch_message(message.id)
        found["reactions"] = [str(reaction.emoji) for reaction in again.reactions]
        channel = self.get_channel(CHANNEL)
        posted = await channel.send("a plan", view=buttons())
        thread = await posted.create_thread(name="Plans")
        inside = await thread.send("in it")
        found["thread"] = [thread.id == posted.id, inside.channel.id == thread.id]
        found["history"] = [each.content async for each in channel.history(limit=5)]
        await reply.delete()
        person = await self.fetch_user(message.author.id)
        found["direct"] = (await person.send("directly")).channel.type.name


def buttons() -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Go", custom_id="go"))
    return view


async def main() -> None:
    client = Client()

    @client.tree.command(name="ask", description="Ask the agent")
    async def ask(interaction: discord.Interaction, prompt: str) -> None:
        await interaction.response.defer()
        await interaction.followup.send(f"you asked {prompt}")
        found["asked"] = prompt
        client.answered.set()

    async with client:
        running = asyncio.create_task(client.start(os.environ["DISCORD_BOT_TOKEN"]))
        both = asyncio.gather(client.answered.wait(), client.worked.wait())
        await asyncio.wait((running, both), return_when=asyncio.FIRST_COMPLETED)
        await client.close()
        await running
    print(json.dumps(found))


asyncio.run(main())
