"""Who and where in the fake Discord, and the addresses of an interaction."""

ANA, BEN, DM, CHANNEL = "80000000000000001", "80000000000000002", "1290000000000000400", "1290000000000000200"
MINUTE_MS = 60_000
QUIET = {"parse": []}


def original(got):
    return f"/webhooks/{got.body['application_id']}/{got.body['token']}/messages/@original"


def follow_up(got):
    return f"/webhooks/{got.body['application_id']}/{got.body['token']}"
