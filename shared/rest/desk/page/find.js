// Search: a message by its id, people and chats by name, and words in the histories. And the page of one person.
async function search([words], query) {
  const before = new URLSearchParams(query).get("before");
  const [named, known, found] = await Promise.all([before ? [] : ask(`/api/why?ref=${quoted(words)}`).catch(() => []), before ? {chats: [], people: []} : ask(`/api/find?q=${quoted(words)}`), words.length > 1 ? ask(`/api/search?q=${quoted(words)}&limit=50${before ? `&before=${before}` : ""}`) : {found: [], next: null}]);
  const count = named.length + known.chats.length + known.people.length + found.found.length;
  const part = (title, rows) => rows.length ? el("section", {class: "panel", "aria-label": title}, el("header", {}, el("h2", {}, title)), el("ul", {class: "rows"}, rows)) : null;
  return [top(`“${words}”`, `${count ? many(count, "hit") : "Nothing found"}${found.next ? before ? ", in some of the older lines" : ", among the newest lines" : ""}.`),
    part("By id", named.map(whyRow)),
    part("Chats", known.chats.map((chat) => el("li", {}, mark("done"), el("span", {class: "who"}, chat.isGroup ? "group" : "direct"), el("div", {}, el("a", {href: `#/c/${chat.id}`}, nameOf(chat)), el("span", {class: "who"}, ` · ${chat.channel} · ${chat.platformId}`))))),
    part("People", known.people.map((one) => el("li", {}, mark("done"), el("span", {class: "who"}, one.channel), el("div", {}, el("a", {href: `#/p/${quoted(one.channel)}/${quoted(one.senderId)}`}, one.name || one.senderId), one.chatId ? [" · ", el("a", {href: `#/c/${one.chatId}`}, "conversation")] : null)))),
    part("Said", found.found.map((one) => el("li", {}, mark("done"), time(one.createdAt), el("div", {}, el("div", {class: "text"}, el("a", {href: `#/m/${quoted(one.messageId)}`}, one.excerpt)), el("div", {class: "who"}, `${one.sender} · ${one.agent} · ${one.channel}`))))),
    count ? null : el("section", {class: "panel", "aria-label": "Nothing found"}, el("p", {class: "none"}, "Search takes the id of a message, a part of the name of a chat or a person, an id of the platform, or words that were said.")),
    found.next ? el("a", {class: "more act", role: "button", href: `#/find/${quoted(words)}?before=${found.next}`}, "Search older lines") : null];
}
const whyRow = (one) => el("li", {"data-key": one.id}, markOf(one), time(one.createdAt), el("div", {}, el("a", {class: "mono", href: `#/m/${quoted(one.id)}`}, one.id), el("span", {class: "who"}, ` · ${one.sender || one.senderId || "somebody"} · ${one.channel}${one.chatName && one.chatName !== one.sender ? ` · ${one.chatName}` : ""}`), el("div", {class: "reason"}, one.reason)));
async function person([channel, senderId]) {
  const [list, known] = await Promise.all([ask(`/api/why?senderId=${quoted(senderId)}&channel=${quoted(channel)}&limit=50`), ask(`/api/find?q=${quoted(senderId)}`)]);
  const self = known.people.find((one) => one.channel === channel && one.senderId === senderId), name = self?.name || list.find((one) => one.sender)?.sender || senderId;
  return [top(name, `${senderId} on ${channel}: the newest that was written, and what became of it.`),
    el("p", {class: "note"}, self?.chatId ? [el("a", {href: `#/c/${self.chatId}`}, "The conversation"), " · "] : null, Object.entries(STATES).filter(([state]) => state !== "sending" && state !== "unsent").map(([state, label], at) => [at ? " · " : null, el("a", {href: `#/queue/${state}?${new URLSearchParams({channel, senderId})}`}, label)])),
    el("section", {class: "panel", "aria-label": "Messages"}, list.length ? el("ul", {class: "rows"}, list.map(whyRow)) : el("p", {class: "none"}, "Nothing lately."))];
}
