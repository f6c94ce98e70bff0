"""Every method of the fake Telegram, called with what the Bot API's own description says, answers in its types."""

from pathlib import Path

import aiohttp

from emulator.platforms.telegram import schema
from emulator.platforms.telegram.methods.media_messages import SINGLE
from tests.emulator.platforms.telegram.pictures import OGG, png
from tests.emulator.platforms.telegram.test_api import refusal, url

ANA, BEN = 5000000001, 5000000002
# Parameters that are no plain text or number of their type.
KNOWN = {
    "action": "typing",
    "callback_query_id": "",
    "close_date": 0,
    "commands": [{"command": "start", "description": "Begin"}],
    "correct_option_ids": [0],
    "draft_id": 7,
    "emoji": "🎲",
    "explanation": "why",
    "icon_custom_emoji_id": "1",
    "latitude": 52.5,
    "live_period": 900,
    "longitude": 13.4,
    "menu_button": {"type": "default"},
    "open_period": 600,
    "options": [{"text": "Pizza"}, {"text": "Noodles"}],
    "parse_mode": "HTML",
    "permissions": {"can_send_messages": False},
    "reaction": [{"type": "emoji", "emoji": "👍"}],
    "scope": {"type": "default"},
    "timeout": 0,
    "type": "regular",
    "user_id": BEN,
}
# Not sent: connections, chats and messages that nobody here has.
LEFT_OUT = {"business_connection_id", "direct_messages_topic_id", "inline_message_id", "offset", "is_closed", "url"}
SIMPLE = {"String": "x", "Integer": 1, "Float": 1.0, "Boolean": True}

KEYS = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}
LIVE = {"latitude": 1.0, "longitude": 1.0, "live_period": 900}
# The message that a method changes, where a text will not do.
SOURCE = {
    "stopPoll": ("sendPoll", {"question": "Lunch?", "options": KNOWN["options"]}),
    "editMessageCaption": ("sendPhoto", {}),
    "editMessageMedia": ("sendPhoto", {}),
    "editMessageReplyMarkup": ("sendMessage", {"reply_markup": KEYS}),
    "editMessageLiveLocation": ("sendLocation", LIVE),
    "stopMessageLiveLocation": ("sendLocation", LIVE),
}
# What must be done before, so that there is something to do.
FIRST = {
    "unpinChatMessage": "pinChatMessage",
    "reopenForumTopic": "closeForumTopic",
    "closeGeneralForumTopic": "reopenGeneralForumTopic",
    "reopenGeneralForumTopic": "closeGeneralForumTopic",
    "hideGeneralForumTopic": "unhideGeneralForumTopic",
    "unhideGeneralForumTopic": "hideGeneralForumTopic",
    "setChatAdministratorCustomTitle": "promoteChatMember",
}


class Walk:
    """A supergroup where the bot is an administrator, a topic, and a message of each kind."""

    def __init__(self, world):
        self._world = world

    async def begin(self):
        await self.do("chats", title="Trip", members=[str(ANA), str(BEN)], super=True)
        await self._world.say("hello")
        self.files = {kind: await self.upload(name, kind) for name, kind in SINGLE.items()}
        made = await self._world.do(f"/control/telegram/users/{ANA}/bots", {"name": "Helper", "username": "helper_bot"})
        self.managed = int(made["bot"])

    async def do(self, action, **body):
        done = await self._world.do(f"/chat/telegram/{action}", body)
        if action == "chats":
            self.chat = int(done["chat"])
            await self.do("admin", chat=done["chat"])
        return done

    async def upload(self, name, kind):
        form = aiohttp.FormData({"chat_id": str(self.chat)})
        form.add_field(kind, png(40, 30) if kind == "photo" else OGG, filename="a.bin")
        async with self._world.session.post(url(self._world, name), data=form) as response:
            sent = (await response.json())["result"]
        kept = sent.get(kind) or sent["document"]
        return (kept[-1] if isinstance(kept, list) else kept)["file_id"]

    async def call(self, name, /, **params):
        answer = await self._world.bot(name, **params)
        assert answer["ok"], (name, params, answer)
        return answer["result"]

    async def sent(self, name="sendMessage", **more):
        given = {"chat_id": self.chat, **({"text": "x"} if name == "sendMessage" else {}), **more}
        return (await self.call(name, **given))["message_id"]

    async def topic(self):
        return (await self.call("createForumTopic", chat_id=self.chat, name="Food"))["message_thread_id"]

    def given(self, name, wanted):
        """Values for the parameters *wanted*."""
        fields = schema.parameters(name)
        return {each: self.value(name, each, fields[each][1:]) for each in wanted if each in fields}

    def value(self, method, name, types):
        if name in self.files and "InputFile" in types:
            return self.files[name]
        if name == "media" and method == "sendMediaGroup":
            return [{"type": "photo", "media": self.files["photo"]}] * 2
        if name == "media":
            return {"type": "photo", "media": self.files["photo"], "caption": "new"}
        if name in KNOWN:
            return KNOWN[name]
        return next((SIMPLE[each] for each in types if each in SIMPLE), None)

    async def prepared(self, name):
        """What this method needs first: the ids of a message, of a topic, of a press ..."""
        if name == "answerCallbackQuery":
            return {"callback_query_id": await self.press()}
        if "ManagedBot" in name:
            return {"user_id": self.managed}
        is_of_topic = "ForumTopic" in name and "message_thread_id" in schema.parameters(name)
        source, more = SOURCE.get(name, ("sendMessage", {}))
        file = {"photo": self.files["photo"], "caption": "old"} if source == "sendPhoto" else {}
        ids = (
            {"message_thread_id": await self.topic()}
            if is_of_topic
            else {"message_id": await self.sent(source, **file, **more)}
        )
        if name in FIRST:
            await self._world.bot(FIRST[name], chat_id=self.chat, user_id=BEN, can_pin_messages=True, **ids)
        return ids

    async def press(self):
        message = await self.sent(reply_markup=KEYS)
        body = {"chat": str(self.chat), "person": str(ANA), "data": "y", "message": str(message)}
        return (await self.do("press", **body))["callback_query_id"]

    async def parameters(self, name, *, is_full):
        fields = {key: of for key, of in schema.parameters(name).items() if key not in LEFT_OUT}
        wanted = {
            key
            for key, (is_required, *types) in fields.items()
            if is_required or (is_full and SIMPLE.keys() & set(types))
        }
        given = self.given(name, wanted)
        ids = {"chat_id": self.chat, "from_chat_id": self.chat, **await self.prepared(name)}
        if "message_ids" in fields:
            ids["message_ids"] = [ids.pop("message_id")]
        if "Draft" in name:
            ids["chat_id"] = ANA
        if name == "setChatMenuButton" and not is_full:
            del ids["chat_id"]
        if name == "sendPoll" and is_full:
            given |= {"type": "quiz", "correct_option_ids": [0]}
        given |= {
            key: value
            for key, value in ids.items()
            if key in fields and (key in wanted or key in ("message_id", "chat_id"))
        }
        if "message_thread_id" in given and "ForumTopic" not in name:
            given["message_thread_id"] = await self.topic() if "Draft" not in name else None
        if name == "editMessageText":
            given["text"] = "new"
        if name == "getFile":
            given["file_id"] = self.files["photo"]
        if name in ("setChatTitle", "setChatDescription"):
            given[name.removeprefix("setChat").lower()] = f"Title {is_full}"
        return given


def test_every_method_answers_in_the_types_of_the_description(play):
    """``play`` checks each result against the description, strictly."""

    async def scenario(world):
        walk = Walk(world)
        await walk.begin()
        names = world.platforms.fakes["telegram"].api.method_names
        last = ["replaceManagedBotToken", "leaveChat"]
        assert len(names) > 80
        refused = []
        for name in [*(each for each in names if each not in last), *last]:
            for is_full in (False, True) if name != "leaveChat" else (False,):
                given = await walk.parameters(name, is_full=is_full)
                world.clock.advance(1000)
                answer = await world.bot(name, **given)
                refused += [] if answer["ok"] else [(name, given, answer["description"])]
        assert refused == []

    play(scenario, limits=False)


def test_the_docs_say_how_many_methods_there_are(play):
    async def scenario(world):
        have, all_of_them = len(world.platforms.fakes["telegram"].api.method_names), len(schema.spec()["methods"])
        said = (Path(__file__).parents[4] / "docs/chat-page.md").read_text()
        assert f"The fake Telegram has {have} of the {all_of_them} methods" in said

    play(scenario)


def test_a_method_that_only_the_fake_lacks_says_so_with_what_it_has_and_where_to_ask(play):
    async def scenario(world):
        assert refusal(await world.bot("sendPigeon")) == (404, "Not Found: method not found")
        status, said = refusal(await world.bot("sendinvoice"))
        assert (status, said[:45]) == (404, "Not Found: sendInvoice is not in this fake. A")
        assert "issue" in said
        assert all(f" {name}," in said for name in ("sendPoll", "forwardMessage", "leaveChat"))

    play(scenario)
