"""What the tests add to a copy of the tree: one of each."""

CHANNEL = '''
    """Pigeon: a platform that signs with a secret and speaks JSON."""

    import hmac
    import json

    from pydantic import SecretStr

    from shared.channels import platform_api
    from shared.channels.account_settings import AccountSettings
    from shared.channels.base import Event, Part, PlainChannel, Received, Sent, WebhookReply
    from shared.channels.manifest import Manifest, ManifestSetting
    from shared.core.errors import OutcomeUnknown, PayloadInvalid, PermanentError, SignatureInvalid, TokenRefused

    MANIFEST = Manifest(
        platform="pigeon",
        title="Pigeon",
        settings=(
            ManifestSetting("SECRET", "What you and the loft keeper agreed on.", is_secret=True),
            ManifestSetting("API_BASE", "The address of the loft."),
        ),
        steps=("Buy a loft.",),
    )


    class PigeonSettings(AccountSettings):
        env_prefix = "PIGEON_"

        secret: SecretStr
        api_base: str


    class Pigeon(PlainChannel):
        platform = "pigeon"
        unreadable = WebhookReply()

        def __init__(self, settings, name):
            self.name = name
            self._secret, self._base = settings.secret.get_secret_value(), settings.api_base

        def receive(self, request, *, now_ms):
            given = request.headers.get("x-pigeon-secret", "").encode("utf-8", "surrogatepass")
            if not hmac.compare_digest(given, self._secret.encode()):
                raise SignatureInvalid("the X-Pigeon-Secret header is missing or wrong")
            try:
                note = json.loads(request.body)
            except ValueError:
                raise PayloadInvalid("the note is no JSON") from None
            event = Event(
                "message",
                event_key=note["id"],
                platform_id=note["loft"],
                platform_message_id=note["id"],
                sender=note["from"],
                sender_id=note["from"],
                text=note["text"],
            )
            return Received((event,))

        def render(self, text, files=()):
            return (Part(text),) if text.strip() else ()

        async def send(self, part, to, client, *, now_ms):
            sent = await self._call(client, "POST", "send", {"loft": to.platform_id, "text": part.text})
            return Sent(str(sent["id"]))

        async def check_token(self, client):
            await self._call(client, "GET", "", None)

        async def _call(self, client, method, path, body):
            answer = await platform_api.call(client, "Pigeon", method, f"{self._base}/{path}", body, {})
            if answer.status == 401:
                raise TokenRefused("Pigeon refuses PIGEON_SECRET")
            if 400 <= answer.status < 500:
                raise PermanentError(f"Pigeon answered {answer.status}")
            if answer.status != 200 or "id" not in answer.payload:
                raise OutcomeUnknown(f"Pigeon answered {answer.status}")
            return answer.payload


    def channel(account):
        return Pigeon(PigeonSettings.of(account), account)
'''

KIT = '''
    """Pigeon for the suite of all channels."""

    import json

    import httpx

    from shared.channels.base import WebhookRequest
    from tests.shared.channels.kits import ChannelKit, Recorded

    NOTE = json.dumps({"id": "n1", "loft": "9", "from": "Ana", "text": "hello"}).encode()


    def sign(body):
        return WebhookRequest("POST", {}, {"x-pigeon-secret": "coo"}, body)


    KIT = ChannelKit(
        environment={"PIGEON_SECRET": "coo", "PIGEON_API_BASE": "http://127.0.0.1:1"},
        sign=sign,
        recorded=[Recorded("a_note", NOTE, {"kind": "message", "text": "hello", "sender": "Ana"})],
        in_context=(),
        accepts=lambda _: httpx.Response(200, json={"id": "1"}),
        asks_token="",
        direct="9",
        group="10",
        attachment={},
        content=b"",
        secrets=("coo",),
    )
'''

PROVIDER = '''
    """Shout: says everything in capitals."""

    from shared.agents.base import Init, Result, Text


    class Shout:
        def check(self, config):
            pass

        async def run(self, turn):
            yield Init("shouting")
            for message in turn.messages:
                yield Text(message.text.upper(), message.message_id)
            yield Result()


    def provider():
        return Shout()
'''

TOOL = '''
    """Dice."""

    from shared.turns.tools.base import Arguments, Tool


    class RollDice(Arguments):
        sides: int


    def _roll(call, given):
        return f"{call.agent.id} rolled {min(4, given.sides)}."


    TOOLS = (Tool("roll_dice", "Roll a fair die with that many sides.", RollDice, _roll, reads=True),)
'''

JOB = '''
    """Counts the messages of each sender, from a Parquet file."""

    import sys

    from spark_jobs.session import session


    def main(arguments):
        source, = arguments
        counted = session("senders").read.parquet(source).groupBy("sender").count().orderBy("sender")
        sys.stdout.write("".join(f"{row.sender} {row['count']}\\n" for row in counted.collect()))
        return 0
'''

SETTING = """
    motto: Annotated[
        str,
        MaxLen(80),
        RowSetting("What it says first of all.", "motto", "said before the first answer", unset="silence"),
    ] = ""
    """

SETTING_OF_A_WIRING = """
    mood: Annotated[Literal["calm", "merry"], RowSetting("How it answers.", "mood")] = "calm"
    """
