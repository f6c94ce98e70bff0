"""Signatures of Standard Webhooks: HMAC-SHA256 with a shared secret, over the id, the instant and the raw body.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping

from shared.core.errors import SignatureInvalid

FRESH_MS = 5 * 60_000  # the largest distance of a signed timestamp from now; an older capture can't be replayed
SECRET = r"^(whsec_)?[A-Za-z0-9+/]{32,88}={0,2}$"  # 24 to 64 bytes  # noqa: S105 - the form of a secret

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_TIMESTAMP = re.compile(r"[0-9]{1,15}")


def sign(secret: str, webhook_id: str, body: bytes, *, now_ms: int) -> dict[str, str]:
    """The headers of a signed request.

    Args:
        secret: base64, with or without ``whsec_`` before it.
        webhook_id: of the event; the same on every repetition.
    """
    timestamp = str(now_ms // 1000)
    signature = _signature(secret, webhook_id, timestamp, body)
    return {"webhook-id": webhook_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now_ms: int) -> str:
    """The id of a signed request. Header names are lower-case; of several signatures, one has to match.

    Raises:
        SignatureInvalid: the secret's owner did not sign these bytes, or signed them at another time.
    """
    webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(webhook_id) or not _TIMESTAMP.fullmatch(timestamp) or not timestamp.isascii():
        raise SignatureInvalid("the webhook-id or webhook-timestamp header is missing or malformed")
    wanted = f"v1,{_signature(secret, webhook_id, timestamp, body)}".encode()
    given = headers.get("webhook-signature", "").encode("utf-8", "replace").split(b" ")
    if not any(hmac.compare_digest(each, wanted) for each in given):
        raise SignatureInvalid("the webhook-signature does not match: check that both sides have the same secret")
    if abs(now_ms - int(timestamp) * 1000) > FRESH_MS:
        raise SignatureInvalid(
            "the webhook-timestamp is more than 5 minutes from now: a replayed request, or a wrong clock"
        )
    return webhook_id


def _signature(secret: str, webhook_id: str, timestamp: str, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_") + "==")
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
