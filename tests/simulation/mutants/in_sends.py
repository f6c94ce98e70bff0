"""Deliberate faults in what is sent, and in how long things wait."""

from tests.simulation.mutants.mutant import Edit, Mutant

_RESPONSES = "shared/db/queue/responses"

SENDS = (
    # Answers: in order, once, or with a recorded doubt.
    Mutant(
        "sends-two-at-once",
        f"{_RESPONSES}/due.py",
        '                        WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = \'delivering\')\n"""',
        '                        WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = \'nothing\')\n"""',
        "the answers of a chat arrive in order",
        also=(Edit("functions/deliver.py", "now_ms=now_ms, held=self._chats)", "now_ms=now_ms, held=())"),),
        needs=("failing disk", "unsteady platform"),
        found=True,
    ),
    Mutant(
        "overtakes-a-failed-send",
        f"{_RESPONSES}/due.py",
        "                         AND (r.deliver_after IS NULL OR r.deliver_after <= :now OR r.failure IS NOT NULL)\n                       ORDER BY r.id\n",
        "                         AND (r.deliver_after IS NULL OR r.deliver_after <= :now)\n                       ORDER BY r.id\n",
        "the answers of a chat arrive in order",
        needs=("unsteady platform",),
    ),
    Mutant(
        "records-no-doubt",
        f"{_RESPONSES}/progress.py",
        '    if verdict.failure == "outcome_unknown":\n',
        '    if verdict.failure == "nothing":\n',
        "a second arrival has a recorded doubt",
        needs=("unsteady platform",),
        found=True,
    ),
    Mutant(
        "takes-a-killed-send-for-none",
        "shared/queue/deliveries.py",
        "why = RetryableError if _is_harmless(conn, response) else OutcomeUnknown",
        "why = RetryableError",
        "a second arrival has a recorded doubt",
        needs=("kill at a call",),
        found=True,
    ),
    Mutant(
        "takes-silence-for-a-refusal",
        "shared/queue/delivery_verdicts.py",
        '    return "outcome_unknown" if _may_have_arrived(error) else "error"',
        '    return "error"',
        "a second arrival has a recorded doubt",
        needs=("unsteady platform",),
    ),
    Mutant(
        "sends-before-it-is-recorded",
        "functions/deliver.py",
        "            claimed = await self.claim(partial(self._claim, heads=heads))\n",
        "            claimed = await self.claim(partial(self._claim, heads=heads), durable=False)\n",
        "a second arrival has a recorded doubt, after a power cut too",
        needs=("power at a call",),
        found=True,
    ),
    Mutant(
        "sends-before-it-is-replicated",
        "functions/deliver.py",
        "            await self._confirm(response.channel)\n            await self.sender",
        "            await self.sender",
        "a second arrival has a recorded doubt, after the loss of a disk too",
        needs=("lost disk at a call",),
        found=True,
    ),
    Mutant(
        "forgets-that-it-has-sent",
        f"{_RESPONSES}/progress.py",
        "           SET status = 'acked', claimed_by = NULL, lease = NULL, part_started = NULL, last_error = NULL,\n"
        "               failure = NULL, unsent_since = NULL, parts = :parts, platform_message_id = :first, acked_at = :now\n",
        "           SET status = iif(retry_count, 'acked', 'pending'), claimed_by = NULL, lease = NULL, part_started = NULL, last_error = NULL,\n"
        "               failure = NULL, unsent_since = NULL, parts = iif(retry_count, :parts, '[]'), platform_message_id = :first,\n"
        "               acked_at = iif(retry_count, :now, NULL), retry_count = retry_count + 1\n",
        "an answer arrives once",
    ),
    Mutant(
        "acknowledges-what-was-refused",
        "shared/channels/telegram/answers.py",
        '    return CallResult("down" if status >= 500 else "unknown", reason)\n',
        '    return CallResult("sent" if status >= 500 else "unknown", reason)\n',
        "what is acknowledged has arrived",
        needs=("unsteady platform",),
        found=True,
    ),
    Mutant(
        "gives-up-an-answer-at-once",
        "shared/queue/delivery_verdicts.py",
        "    if held or not isinstance(error, RetryableError) or attempts >= policy.max_attempts:",
        "    if held or not isinstance(error, RetryableError) or attempts >= 1:",
        "an answer arrives, though a send failed",
        needs=("unsteady platform",),
    ),
    Mutant(
        "never-ends-an-outage",
        "shared/db/platforms/channel_outages.py",
        "         WHERE channel = :channel AND probe_at = :probe_at\n",
        "         WHERE channel = :channel AND probe_at = :probe_at + 1\n",
        "an answer arrives when its platform is back",
        needs=("platform away",),
    ),
    Mutant(
        "answers-in-another-chat",
        "shared/queue/replies.py",
        "        platform_id=asked.platform_id,\n",
        '        platform_id="100",\n',
        "an answer goes to the chat that asked",
        found=True,
    ),
    # Time.
    Mutant(
        "lets-a-clock-lengthen-waits",
        "functions/sweep.py",
        "        if swept.counts[name]:\n            bound = partial(",
        "        if False:\n            bound = partial(",
        "nothing waits longer than its row asked for",
        needs=("clock",),
        found=True,
        seed=258,
    ),
    Mutant(
        "waits-a-day-for-a-retry",
        "shared/core/time/backoff.py",
        "    return spread_ms(min(cap_ms, base_ms * growth ** min(attempt - 1, 30)), jitter=jitter)",
        "    return spread_ms(288 * cap_ms, jitter=jitter)",
        "nothing waits longer than its row may ask for",
        seed=190,
    ),
)
