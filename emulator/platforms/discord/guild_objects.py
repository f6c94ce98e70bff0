"""The server and what the Gateway says about it: the Guild, Role, Member and Application objects of Discord's API.

Source: https://discord.com/developers/docs/resources/guild, resources/application, events/gateway-events#ready
"""

from collections.abc import Sequence
from typing import Any

from emulator.platforms.bot_names import BOT_NAME
from emulator.platforms.discord.app import CHANNEL_ID, GUILD_ID, DiscordApp
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.store import FakeChat, FakePerson, PlatformStore

PERMISSIONS = "2248473465835073"
_JOINED = "2026-01-02T03:04:05.678000+00:00"


def member(user: dict[str, Any] | None) -> dict[str, Any]:
    """The Member object of *user*; None: a partial one, as beside a message."""
    known: dict[str, Any] = {
        "nick": None,
        "avatar": None,
        "banner": None,
        "roles": [],
        "deaf": False,
        "mute": False,
        "joined_at": _JOINED,
        "premium_since": None,
        "flags": 0,
        "pending": False,
        "communication_disabled_until": None,
    }
    return known if user is None else {"user": user, **known}


class GuildObjects:
    """Writes objects from rows."""

    def __init__(self, store: PlatformStore, app: DiscordApp, objects: DiscordObjects) -> None:
        self._store, self._app, self._objects = store, app, objects

    def ready(self, session_id: str, url: str, shard: Sequence[int]) -> dict[str, Any]:
        """The data of READY."""
        return {
            "v": 10,
            "user": {**self._objects.bot_user, "mfa_enabled": False, "verified": True, "email": None},
            "guilds": [{"id": GUILD_ID, "unavailable": True}],
            "session_id": session_id,
            "resume_gateway_url": url,
            "session_type": "normal",
            "shard": list(shard),
            "application": {"id": self._app.id, "flags": 0},
            "private_channels": [],
            "relationships": [],
            "presences": [],
            "_trace": ["fake"],
        }

    def guild(self) -> dict[str, Any]:
        """The Guild object."""
        nothing = (
            "icon splash discovery_splash afk_channel_id application_id system_channel_id rules_channel_id"
            " vanity_url_code description banner public_updates_channel_id safety_alerts_channel_id home_header"
            " hub_type icon_hash incidents_data latest_onboarding_question_id"
        )
        return {
            **dict.fromkeys(nothing.split()),
            "id": GUILD_ID,
            "name": "Fake server",
            "owner_id": self._members()[0].id,
            "region": "deprecated",
            "afk_timeout": 300,
            "widget_enabled": False,
            "widget_channel_id": None,
            "verification_level": 1,
            "default_message_notifications": 1,
            "explicit_content_filter": 0,
            "roles": [_everyone()],
            "emojis": [],
            "features": [],
            "mfa_level": 0,
            "system_channel_flags": 0,
            "max_presences": None,
            "max_members": 500_000,
            "premium_tier": 0,
            "premium_subscription_count": 0,
            "preferred_locale": "en-US",
            "max_video_channel_users": 25,
            "max_stage_video_channel_users": 50,
            "nsfw": False,
            "nsfw_level": 0,
            "stickers": [],
            "premium_progress_bar_enabled": False,
        }

    def guild_create(self) -> dict[str, Any]:
        """The data of GUILD_CREATE: the server with its members, channels and threads."""
        people = self._members()
        chats = [chat for chat in self._store.chats("discord") if chat.facts.get("guild")]
        return {
            **self.guild(),
            "joined_at": _JOINED,
            "large": False,
            "unavailable": False,
            "member_count": len(people) + 1,
            "voice_states": [],
            "members": [self.bot_member(), *(member(self._objects.user(person)) for person in people)],
            "channels": [self._objects.channel(chat) for chat in chats if chat.kind == "channel"],
            "threads": [self._objects.channel(chat) for chat in chats if chat.kind == "thread"],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }

    def bot_member(self) -> dict[str, Any]:
        return member(self._objects.bot_user)

    def application(self, interactions_url: str | None) -> dict[str, Any]:
        """The Application object, as the app itself reads it."""
        owner = self._objects.user(self._members()[0])
        return {
            "id": self._app.id,
            "name": BOT_NAME,
            "icon": None,
            "description": "",
            "type": None,
            "bot": self._objects.bot_user,
            "summary": "",
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": self._app.public_key,
            "flags": 0,
            "flags_new": "0",
            "hook": True,
            "storefront_available": False,
            "is_monetized": False,
            "is_verified": False,
            "is_discoverable": False,
            "integration_types_config": {"0": {}, "1": {}},
            "redirect_uris": [],
            "eligible_oauth2_scopes": [],
            "interactions_endpoint_url": interactions_url,
            "role_connections_verification_url": None,
            "event_webhooks_url": None,
            "event_webhooks_status": 1,
            "event_webhooks_types": [],
            "interactions_version": 1,
            "interactions_event_types": [],
            "explicit_content_filter": 0,
            "approximate_guild_count": 1,
            "approximate_user_install_count": 0,
            "approximate_user_authorization_count": 0,
            "rpc_application_state": 0,
            "store_application_state": 1,
            "verification_state": 1,
            "discoverability_state": 1,
            "discovery_eligibility_flags": 0,
            "monetization_state": 1,
            "monetization_eligibility_flags": 0,
            "internal_guild_restriction": 1,
            "creator_monetization_state": 1,
            "rpc_origins": [],
            "owner": owner,
            "team": None,
        }

    def message_event(self, chat: FakeChat, wired: dict[str, Any]) -> dict[str, Any]:
        """A Message object as the Gateway sends it: with the server and the author's membership there."""
        if not chat.facts.get("guild"):
            return {**wired, "channel_type": 1}
        kind = 11 if chat.kind == "thread" else 0
        mentions = [{**user, "member": member(None)} for user in wired["mentions"]]
        return {**wired, "mentions": mentions, "channel_type": kind, "guild_id": GUILD_ID, "member": member(None)}

    def _members(self) -> list[FakePerson]:
        """The people in the server: those of its first channel, or everybody where it is empty."""
        general = self._store.chat("discord", CHANNEL_ID)
        people = [self._store.person("discord", one) for one in (general.members if general else ())]
        return [person for person in people if person is not None] or self._store.people("discord")


def _everyone() -> dict[str, Any]:
    return {
        "id": GUILD_ID,
        "name": "@everyone",
        "description": None,
        "permissions": PERMISSIONS,
        "position": 0,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "managed": False,
        "mentionable": False,
        "icon": None,
        "unicode_emoji": None,
        "flags": 0,
    }
