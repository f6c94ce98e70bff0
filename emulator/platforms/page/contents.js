// What is neither text nor file: polls, places, contacts, dice; and what is pinned. Telegram only.
function pollNode(message) {
  const poll = message.poll, votes = Object.entries(poll.votes ?? {}), mine = poll.votes?.[person] ?? [];
  const isOver = poll.closed || (poll.closes_ms && poll.closes_ms <= Date.now() + ahead), isQuiz = Boolean(poll.correct?.length);
  const about = [poll.anonymous ? "anonymous poll" : "poll", isQuiz && "quiz", poll.multiple && "several answers", isOver && "closed"].filter(Boolean).join(" · ");
  const option = (text, at) => {
    const chosen = votes.filter(([, all]) => all.includes(at)), isMine = mine.includes(at), share = votes.length ? Math.round(100 * chosen.length / votes.length) : 0;
    const next = poll.multiple ? (isMine ? mine.filter((one) => one !== at) : [...mine, at]) : isMine ? [] : [at];
    const tone = isQuiz && (mine.length || isOver) ? (poll.correct.includes(at) ? "right" : isMine ? "wrong" : "") : "";
    return el("button", {type: "button", class: tone, "aria-pressed": String(isMine), disabled: isOver || (isQuiz && mine.length > 0), title: poll.anonymous ? null : chosen.map(([id]) => nameOf(id)).join(", "), onclick: () => post("vote", {chat, message: message.id, person, options: next})},
      el("span", {}, text), el("span", {class: "share"}, votes.length ? `${share} %` : ""), el("i", {"aria-hidden": "true", style: `width:${share}%`}));
  };
  return el("div", {class: "poll", role: "group", "aria-label": `Poll: ${poll.question}`}, el("b", {}, poll.question), el("small", {}, about), poll.options.map(option),
    poll.explanation && (mine.length || isOver) ? el("small", {}, poll.explanation) : null, el("small", {}, votes.length === 1 ? "1 vote" : `${votes.length} votes`));
}
function placeNode({location, venue}) {
  const point = `${location.latitude}, ${location.longitude}`;
  return el("div", {class: "card"}, el("span", {class: "sheet", "aria-hidden": "true"}, "⚑"), el("span", {}, el("b", {}, venue ? venue.title : location.live_period ? "Live location" : "Location"), venue ? el("small", {}, venue.address) : null, el("a", {href: `geo:${location.latitude},${location.longitude}`}, point)));
}
function contactNode(contact) {
  const name = [contact.first_name, contact.last_name].filter(Boolean).join(" ");
  return el("div", {class: "card"}, face(name, name, true), el("span", {}, el("b", {}, name), el("a", {href: `tel:${contact.phone_number}`}, contact.phone_number)));
}
/** The poll, place, contact or dice of a message; null for any other. */
function contentOf(message) {
  if (message.poll) return pollNode(message);
  if (message.content?.location) return placeNode(message.content);
  if (message.content?.contact) return contactNode(message.content.contact);
  if (message.content?.dice) return el("div", {class: "dice"}, message.content.dice.emoji, el("small", {}, `shows ${message.content.dice.value}`));
  return null;
}
let pinnedAt = 0;   // which of several the bar shows: a click goes to it, and shows the one before it
function drawPinned(c) {
  const pinned = c.pinned ?? [], at = pinnedAt % Math.max(pinned.length, 1);
  $(".pinned").hidden = !pinned.length;
  renew($(".pinned"), [pinned, at], () => pinned.length ? [el("button", {type: "button", onclick: () => { jumpTo(pinned[at].id); pinnedAt = at + 1; drawPinned(c); }}, el("b", {}, pinned.length > 1 ? `Pinned ${at + 1} of ${pinned.length}` : "Pinned"), el("span", {}, pinned[at].preview))] : []);
}
