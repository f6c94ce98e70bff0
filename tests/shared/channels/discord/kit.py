"""Discord for the suite of all channels."""

import httpx

from tests.shared.channels.discord.test_receive import CASES, EVENTS, IN_CONTEXT, READ, RELAYED, signed
from tests.shared.channels.kits import ChannelKit, Recorded

TOKEN = "MTI5MDAwMDAwMDAwMDAwMDAwMQ.Example.ExampleExampleExample"
CONTENT = b"\x89PNG\r\n\x1a\n0123456789"
_OF_THE_ANSWER = ("respond", "respond_type")  # what the platform is answered at once has tests of its own


def accepts(asked):
    """Any call: a message is sent, a file is there."""
    if asked.url.host == "cdn.discordapp.com":
        return httpx.Response(200, content=CONTENT)
    if asked.method == "PUT" or asked.url.path.endswith("/typing"):
        return httpx.Response(204)
    return httpx.Response(200, json={"id": "9001", "interactions_endpoint_url": None, "event_webhooks_status": 1})


KIT = ChannelKit(
    environment={
        "DISCORD_PUBLIC_KEY": "f7f2db88b74780161a2e67efa0afc95be6cc6dcd56e3f2a559b472fd9ed51dc9",
        "DISCORD_APPLICATION_ID": "1290000000000000001",
        "DISCORD_BOT_TOKEN": TOKEN,
        "DISCORD_API_BASE": "http://127.0.0.1:1/api/v10",
    },
    sign=signed,
    recorded=[
        Recorded(
            case["file"],
            (EVENTS / case["file"]).read_bytes(),
            {name: value for name, value in case["expect"].items() if name not in _OF_THE_ANSWER},
        )
        for case in CASES
        if case["expect"]["kind"] in READ and case["file"] not in RELAYED
    ],
    in_context=IN_CONTEXT,
    accepts=accepts,
    asks_token="@me",
    direct="300",
    group="301",
    attachment={
        "kind": "image",
        "url": "https://cdn.discordapp.com/attachments/1/2/a.png?ex=1",
        "size": len(CONTENT),
    },
    content=CONTENT,
    secrets=(TOKEN,),
)
