"""Threads that a bot makes and writes in."""

CHANNEL, DM, GUILD = "1290000000000000200", "1290000000000000400", "1290000000000000100"


def test_a_thread_of_a_message_has_its_id(play):
    async def scenario(world):
        message = (await world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": "plans"}))[1]["id"]
        path = f"/channels/{CHANNEL}/messages/{message}/threads"
        status, thread = await world.as_bot("POST", path, {"name": "Plans"})
        assert (status, thread["id"], thread["type"], thread["parent_id"]) == (201, message, 11, CHANNEL)
        assert (await world.as_bot("POST", path, {"name": "Again"}))[1]["code"] == 160004
        assert (await world.as_bot("GET", f"/channels/{CHANNEL}/messages/{message}"))[1]["thread"]["name"] == "Plans"
        sent = await world.as_bot("POST", f"/channels/{thread['id']}/messages", {"content": "in it"})
        assert (sent[0], sent[1]["channel_id"]) == (200, message)
        active = (await world.as_bot("GET", f"/guilds/{GUILD}/threads/active"))[1]["threads"]
        assert [each["id"] for each in active] == [message]

    play(scenario)


def test_a_thread_without_a_message_is_private_unless_its_type_says_otherwise(play):
    async def scenario(world):
        for body, kind in (({"name": "a"}, 12), ({"name": "b", "type": 11}, 11)):
            assert (await world.as_bot("POST", f"/channels/{CHANNEL}/threads", body))[1]["type"] == kind
        for body in ({"name": ""}, {"name": "a" * 101}, {"name": "x", "auto_archive_duration": 5}):
            assert (await world.as_bot("POST", f"/channels/{CHANNEL}/threads", body))[1]["code"] == 50035
        assert (await world.as_bot("POST", f"/channels/{DM}/threads", {"name": "x"}))[1]["code"] == 50024

    play(scenario)


def test_a_message_reopens_an_archived_thread_unless_it_is_locked(play):
    async def scenario(world):
        thread = (await world.as_bot("POST", f"/channels/{CHANNEL}/threads", {"name": "x", "type": 11}))[1]["id"]
        path = f"/channels/{thread}"
        assert (await world.as_bot("PATCH", path, {"archived": True}))[1]["thread_metadata"]["archived"] is True
        assert (await world.as_bot("PATCH", path, {"name": "y"}))[1]["code"] == 50083
        assert (await world.as_bot("POST", f"{path}/messages", {"content": "x"}))[0] == 200
        assert (await world.as_bot("GET", path))[1]["thread_metadata"]["archived"] is False
        await world.as_bot("PATCH", path, {"archived": True, "locked": True})
        assert (await world.as_bot("POST", f"{path}/messages", {"content": "x"}))[1]["code"] == 50083
        renamed = await world.as_bot("PATCH", path, {"archived": False, "locked": False, "name": "y"})
        assert renamed[1]["name"] == "y"

    play(scenario)
