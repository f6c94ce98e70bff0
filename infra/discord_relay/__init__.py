"""The optional relay of Discord's Gateway: messages, edits, deletions and reactions as signed posts to ``ingest``.

Discord sends to a webhook what people do with commands and buttons. What they type stands on the Gateway alone, a
WebSocket that some process has to hold: ``python -m infra.discord_relay``. It decides nothing and stores no message.
"""
