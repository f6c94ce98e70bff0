"""python-telegram-bot against the fake Telegram. Prints one JSON object of what it got."""

import asyncio
import io
import json
import os

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, InputMediaPhoto, ReactionTypeEmoji, Update
from telegram.error import BadRequest, RetryAfter
from telegram.ext import ApplicationBuilder, MessageHandler, filters

BASE, TOKEN, CHAT = os.environ["TELEGRAM_API_BASE"], os.environ["TELEGRAM_BOT_TOKEN"], int(os.environ["CHAT"])
PICTURE = bytes.fromhex(os.environ["PICTURE"])


async def use_methods(bot: Bot) -> dict:
    buttons = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
    sent = await bot.send_message(CHAT, "<b>bold</b>", parse_mode="HTML", reply_markup=buttons)
    edited = await bot.edit_message_text("new", chat_id=CHAT, message_id=sent.message_id, reply_markup=buttons)
    plain = await bot.edit_message_reply_markup(chat_id=CHAT, message_id=sent.message_id)
    await bot.set_message_reaction(CHAT, sent.message_id, [ReactionTypeEmoji("👍")])
    await bot.send_chat_action(CHAT, "typing")
    document = await bot.send_document(CHAT, io.BytesIO(b"abc"), filename="a.txt", caption="notes")
    file = await document.document.get_file()
    album = await bot.send_media_group(CHAT, [InputMediaPhoto(PICTURE, caption="two"), InputMediaPhoto(PICTURE)])
    chat = await bot.get_chat(CHAT)
    await bot.set_my_commands([("start", "Begin")])
    poll = await bot.send_poll(CHAT, "Lunch?", ["Pizza", "Noodles"], type="quiz", correct_option_id=1)
    live = await bot.send_location(CHAT, 52.5, 13.4, live_period=900)
    moved = await bot.edit_message_live_location(CHAT, live.message_id, latitude=1, longitude=2)
    contact = await bot.send_contact(CHAT, "+491", "Cara")
    copies = await bot.copy_messages(CHAT, CHAT, [contact.message_id])
    dice = await bot.send_dice(CHAT)
    member = await bot.get_chat_member(os.environ["GROUP"], bot.id)
    not_allowed = ""
    try:
        await bot.ban_chat_member(os.environ["GROUP"], CHAT)
    except BadRequest as problem:
        not_allowed = str(problem)
    refused = ""
    try:
        await bot.send_message(CHAT, "<b>", parse_mode="HTML")
    except BadRequest as problem:
        refused = str(problem)
    return {
        "edited": edited.text,
        "buttons": plain.reply_markup is not None,
        "file": bytes(await file.download_as_bytearray()).decode(),
        "caption": document.caption,
        "album": [len({message.media_group_id for message in album}), len(album), album[0].caption],
        "poll": [poll.poll.type, (await bot.stop_poll(CHAT, poll.message_id)).is_closed],
        "moved": [moved.location.latitude, moved.location.live_period],
        "contact": [contact.contact.first_name, len(copies), 1 <= dice.dice.value <= 6],
        "member": [member.status, not_allowed],
        "max_reactions": chat.max_reaction_count,
        "commands": [command.command for command in await bot.get_my_commands()],
        "deleted": await bot.delete_message(CHAT, sent.message_id),
        "refused": refused,
    }


async def answer_by_polling() -> list:
    """The framework's own loop: it deletes the webhook, polls, and calls the handler."""
    heard: asyncio.Queue = asyncio.Queue()

    async def handle(update: Update, context: object) -> None:
        message = update.message
        if message.photo:
            file = await message.photo[-1].get_file()
            await heard.put(["photo", message.caption, len(await file.download_as_bytearray())])
        else:
            await message.reply_text(f"you said {message.text}", do_quote=True)
            await heard.put(["text", message.text, message.from_user.first_name])

    app = ApplicationBuilder().token(TOKEN).base_url(f"{BASE}/bot").base_file_url(f"{BASE}/file/bot").build()
    app.add_handler(MessageHandler(filters.ALL, handle))
    async with app:
        await app.start()
        await app.updater.start_polling(timeout=5)
        found = [await heard.get(), await heard.get()]
        await app.updater.stop()
        await app.stop()
    return found


async def flood(bot: Bot) -> float:
    for _ in range(40):
        try:
            await bot.send_message(CHAT, "x")
        except RetryAfter as wait:
            return float(wait._retry_after.total_seconds())
    return 0.0


async def main() -> None:
    found: dict = {"heard": await answer_by_polling()}
    async with Bot(TOKEN, base_url=f"{BASE}/bot", base_file_url=f"{BASE}/file/bot") as bot:
        found |= await use_methods(bot)
        found["me"] = bot.username
        found["flood"] = await flood(bot)
    print(json.dumps(found))


asyncio.run(main())
