"""hikari against the fake Discord: the Gateway, then its REST client. Prints one JSON object of what it got."""

import asyncio
import json
import os

import hikari

API, CHANNEL = os.environ["DISCORD_API_BASE"], int(os.environ["CHANNEL"])
found: dict = {}


async def work(rest: hikari.api.RESTClient, message: hikari.Message) -> None:
    reply = await message.respond("an answer", attachment=hikari.Bytes(b"abc", "a.txt"), reply=True)
    found["file"] = (await reply.attachments[0].read()).decode()
    found["reply_to"] = reply.referenced_message.id == message.id
    await message.add_reaction("👀")
    edited = await reply.edit("edited")
    found["edited"] = [edited.content, len(edited.attachments)]
    again = await rest.fetch_message(message.channel_id, message.id)
    found["reactions"] = [str(reaction.emoji) for reaction in again.reactions]
    row = rest.build_message_action_row().add_interactive_button(hikari.ButtonStyle.PRIMARY, "go", label="Go")
    posted = await rest.create_message(CHANNEL, "a plan", component=row)
    thread = await rest.create_message_thread(CHANNEL, posted.id, "Plans")
    found["thread"] = [thread.id == posted.id, thread.parent_id == CHANNEL]
    found["history"] = [each.content async for each in rest.fetch_messages(CHANNEL).limit(5)]
    app = await rest.fetch_my_user()
    made = rest.slash_command_builder("ask", "Ask the agent")
    commands = await rest.set_application_commands(app.id, [made])
    found["commands"] = [[command.name, int(command.default_member_permissions or 0)] for command in commands]
    found["app"] = (await rest.fetch_application()).name
    channel = await rest.fetch_channel(CHANNEL)
    found["overwrites"] = len(channel.permission_overwrites)


async def main() -> None:
    bot = hikari.GatewayBot(os.environ["DISCORD_BOT_TOKEN"], rest_url=API, banner=None, logs="ERROR")
    worked, asked = asyncio.Event(), asyncio.Event()

    @bot.listen()
    async def on_started(event: hikari.ShardReadyEvent) -> None:
        found["me"] = event.my_user.username
        print("ready", flush=True)

    @bot.listen()
    async def on_message(event: hikari.MessageCreateEvent) -> None:
        if event.is_human and not worked.is_set():
            found["heard"] = [event.content, event.author.global_name]
            await work(bot.rest, event.message)
            worked.set()

    @bot.listen()
    async def on_interaction(event: hikari.InteractionCreateEvent) -> None:
        interaction = event.interaction
        found["asked"] = interaction.options[0].value
        found["owners"] = len(interaction.authorizing_integration_owners)
        await interaction.create_initial_response(hikari.ResponseType.DEFERRED_MESSAGE_CREATE)
        await interaction.edit_initial_response("you asked")
        asked.set()

    await bot.start(check_for_updates=False)
    await asyncio.gather(worked.wait(), asked.wait())
    await bot.close()
    print(json.dumps(found))


asyncio.run(main())
