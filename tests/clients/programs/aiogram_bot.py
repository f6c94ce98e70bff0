"""aiogram against the fake Telegram. Its models refuse whatever lacks a required field. Prints one JSON object."""

import asyncio
import json
import os

from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramBadRequest, TelegramRetryAfter
from aiogram.types import BufferedInputFile, InputMediaDocument, Message, ReactionTypeEmoji

BASE, TOKEN, CHAT = os.environ["TELEGRAM_API_BASE"], os.environ["TELEGRAM_BOT_TOKEN"], int(os.environ["CHAT"])
GROUP = int(os.environ["GROUP"])


async def use_methods(bot: Bot) -> dict:
    sent = await bot.send_message(CHAT, "one")
    await bot.set_message_reaction(CHAT, sent.message_id, reaction=[ReactionTypeEmoji(emoji="👀")])
    edited = await bot.edit_message_text("two", chat_id=CHAT, message_id=sent.message_id)
    draft = await bot.send_message_draft(chat_id=CHAT, draft_id=7, text="so far", can_stop=True)
    notes = BufferedInputFile(b"abc", "a.txt")
    album = await bot.send_media_group(CHAT, [InputMediaDocument(media=notes), InputMediaDocument(media=notes)])
    file = await bot.get_file(album[0].document.file_id)
    voice = await bot.send_voice(CHAT, BufferedInputFile(bytes.fromhex(os.environ["VOICE"]), "v.ogg"), duration=3)
    topic = await bot.create_forum_topic(CHAT, "Plans")
    placed = await bot.send_message(CHAT, "in it", message_thread_id=topic.message_thread_id)
    poll = await bot.send_poll(CHAT, "Lunch?", ["Pizza", "Noodles"], is_anonymous=False)
    place = await bot.send_venue(CHAT, 52.5, 13.4, "Cafe", "Main St 1")
    forwarded = await bot.forward_message(CHAT, CHAT, sent.message_id)
    await bot.pin_chat_message(CHAT, sent.message_id)
    owner, *_ = await bot.get_chat_administrators(GROUP)
    refused = ""
    try:
        await bot.send_message(CHAT, "x", message_thread_id=999)
    except TelegramBadRequest as problem:
        refused = problem.message
    return {
        "edited": edited.text,
        "draft": draft,
        "album": len(album),
        "file": (await bot.download_file(file.file_path)).read().decode(),
        "voice": voice.voice.duration,
        "topic": placed.is_topic_message,
        "refused": refused,
        "poll": [(await bot.stop_poll(CHAT, poll.message_id)).is_closed, poll.poll.options[1].text],
        "place": [place.venue.title, place.location.latitude],
        "forwarded": forwarded.forward_origin.sender_user.username,
        "copied": (await bot.copy_message(CHAT, CHAT, sent.message_id)).message_id - forwarded.message_id,
        "pinned": (await bot.get_chat(CHAT)).pinned_message.text,
        "owner": [owner.status, owner.user.first_name],
        "chat": (await bot.get_chat(CHAT)).type,
        "webhook": (await bot.get_webhook_info()).url,
    }


async def answer_by_polling(bot: Bot) -> list:
    dispatcher, heard = Dispatcher(), []

    @dispatcher.message()
    async def handle(message: Message) -> None:
        await message.reply(f"you said {message.text or message.caption}")
        heard.append([message.text, message.caption, bool(message.photo)])
        if len(heard) == 2:
            await dispatcher.stop_polling()

    await bot.delete_webhook()
    await dispatcher.start_polling(bot, polling_timeout=5, handle_signals=False)
    return heard


async def flood(bot: Bot) -> int:
    for _ in range(40):
        try:
            await bot.send_message(CHAT, "x")
        except TelegramRetryAfter as wait:
            return wait.retry_after
    return 0


async def main() -> None:
    session = AiohttpSession(api=TelegramAPIServer.from_base(BASE))
    async with Bot(TOKEN, session=session) as bot:
        found: dict = {"heard": await answer_by_polling(bot), "me": (await bot.get_me()).username}
        found |= await use_methods(bot)
        found["flood"] = await flood(bot)
    print(json.dumps(found))


asyncio.run(main())
