// The left side: platform, bot, people and conversations; and the head of the conversation.
function drawSide() {
  document.documentElement.dataset.platform = platform;
  for (const tab of document.querySelectorAll(".tabs button")) {
    const chosen = tab.dataset.platform === platform;
    tab.setAttribute("aria-current", chosen);
  }
  drawPeople();
  $("#add-chat").setAttribute("aria-label", can("topics") ? "New group" : "New channel");
  const own = chatsOf(person);
  const children = (id) => own.filter((c) => c.parent === id);
  const tops = own.filter((c) => !c.parent || !own.some((one) => one.id === c.parent));
  patch($(".chats"), tops.flatMap((c) => [chatLine(c), ...children(c.id).map((one) => chatLine(one, true))]));
}
function drawPeople() {
  const people = here().people;
  $(".people").setAttribute("role", people.length > 6 ? "group" : "radiogroup");
  if (people.length > 6) {
    renew($(".people"), people, () => [el("select", {"aria-labelledby": "speak-as", onchange: (e) => bePerson(e.target.value)}, people.map((p) => el("option", {value: p.id, selected: p.id === person}, p.name)))]);
    return;
  }
  renew($(".people"), people, () => people.map((p) => el("button", {type: "button", class: "person", role: "radio", "aria-checked": String(p.id === person), tabindex: p.id === person ? "0" : "-1", "data-id": p.id, onclick: () => bePerson(p.id)}, face(p.name, p.name), p.name)));
}
const chatLines = new Map();   // a line that did not change stays, and with it the focus
function chatLine(c, isThread) {
  const count = unread.get(platform + c.id) || 0;
  const preview = c.preview ? (c.last_is_bot && !isMine(c) ? botOf(c).name + ": " : "") + c.preview : isMine(c) ? "say hello" : `${c.members.length} ${c.members.length === 1 ? "person" : "people"} and ${botOf(c).name}`;
  const print = JSON.stringify([c, count, preview, chat === c.id, titleOf(c), isThread]);
  const key = platform + c.id, [old, node] = chatLines.get(key) || [];
  if (old === print) return node;
  const made = el("li", {class: isThread ? "thread" : ""}, el("button", {type: "button", "aria-current": String(chat === c.id), onclick: () => { open(c.id); view("chat"); }},
    face(isMine(c) ? botOf(c).name : c.title, isMine(c) ? "bot" : c.id, !isThread),
    el("span", {class: "what"}, el("span", {class: "name"}, el("span", {}, titleOf(c)), el("time", {}, c.last_ms ? time(c.last_ms) : "")),
      el("span", {class: "name"}, el("span", {class: "preview"}, preview), count ? el("span", {class: "unread", "aria-label": `${count} new`}, String(count)) : null))));
  chatLines.set(key, [print, made]);
  return made;
}
const lists = new WeakMap();
/** Draw the children of *list* again if what they show has changed: a click needs its button to stay. */
function renew(list, facts, make) {
  const print = JSON.stringify([platform, person, chat, topic, facts]);
  if (lists.get(list) === print) return;
  lists.set(list, print);
  list.replaceChildren(...make());
}
/** Make the children of *list* these nodes, and touch only what differs. */
function patch(list, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...list.children]) if (!wanted.has(child)) child.remove();
  let at = list.firstElementChild;
  for (const node of nodes) {
    if (node === at) at = at.nextElementSibling;
    else list.insertBefore(node, at);
  }
}
const KINDS = {private: "private chat", group: "group", supergroup: "supergroup", dm: "direct message", channel: "server channel", thread: "thread"};
function drawHead() {
  const c = chatOf(chat), me = personOf(person);
  if (!c || !me) return;
  $(".head .face").replaceWith(face(isMine(c) ? botOf(c).name : c.title, isMine(c) ? "bot" : c.id, true));
  $(".head h2").textContent = titleOf(c);
  $(".head p").textContent = `${platformName()} ${KINDS[c.kind] || c.kind} · you are ${me.name}` + (c.blocked ? " · the bot is blocked" : "");
  const block = $("#block");
  block.hidden = c.kind === "thread";
  block.textContent = isMine(c) ? (c.blocked ? "Unblock" : "Block") : c.blocked ? "Add bot" : "Remove bot";
  block.setAttribute("aria-label", isMine(c) ? `${c.blocked ? "Unblock" : "Block"} the bot` : c.blocked ? "Add the bot again" : "Remove the bot from this chat");
  $("#admin").hidden = !can("admins") || isMine(c) || c.blocked;
  $("#admin").textContent = c.admin ? "Admin ✓" : "Make admin";
  $("#admin").setAttribute("aria-label", c.admin ? "Make the bot a member again" : "Make the bot an administrator");
  $("#admin").setAttribute("aria-pressed", String(Boolean(c.admin)));
  drawPinned(c);
  drawTopics(c);
  drawComposer(c);
}
function drawTopics(c) {
  const isChannel = can("threads") && (c.kind === "channel" || c.kind === "thread");
  const canHave = isChannel || (can("topics") && c.kind === "supergroup");
  $(".topics").hidden = !canHave;
  if (isChannel) { drawThreads(c.kind === "thread" ? chatOf(c.parent) ?? c : c); return; }
  if (!canHave) return;
  const chip = (id, name, isClosed) => el("button", {type: "button", "aria-pressed": String(topic === id), onclick: () => { topic = id; drawn.clear(); draw(); box.focus(); }}, name, isClosed ? el("span", {class: "closed"}, " closed") : null);
  renew($(".topics"), [c.topics, c.general], () => [...(c.topics.length ? [chip(null, "All"), ...(c.general.is_hidden ? [] : [chip(0, c.general.name, c.general.is_closed)]), ...c.topics.map((t) => chip(t.id, t.name, t.is_closed))] : []),
    el("button", {type: "button", class: "add", onclick: newTopic}, "New topic")]);
}
/** Discord: a channel and its threads, each a conversation of its own. */
function drawThreads(channel) {
  const chip = (c, name) => el("button", {type: "button", "aria-pressed": String(c.id === chat), onclick: () => open(c.id)}, name);
  const threads = chatsOf(person).filter((c) => c.parent === channel.id);
  renew($(".topics"), [channel.id, threads.map((c) => [c.id, c.title])], () => [...(threads.length ? [chip(channel, titleOf(channel)), ...threads.map((c) => chip(c, c.title))] : []),
    el("button", {type: "button", class: "add", onclick: () => newThread(null), disabled: chatOf(chat).kind === "thread"}, "New thread")]);
}
$("#admin").addEventListener("click", () => post("admin", {chat, admin: !chatOf(chat).admin}));
$("#block").addEventListener("click", () => post("block", {chat, blocked: !chatOf(chat).blocked}));

// Several bots: each further account has a page of its own, beside this one.
const [, root, account] = base.match(/^(.*?)(?:\/accounts\/([^/]+))?\/chat$/) ?? [, "", undefined];
const ofAccount = account?.split(".")[0];
async function drawBots() {
  const answer = await fetch(`${root}/chat/accounts`).catch(() => null);
  const found = answer?.ok ? (await answer.json()).accounts : [];
  $(".bots").hidden = !found.length;
  $("#bot").replaceChildren(el("option", {value: ""}, "the first bots"), ...found.map((name) => el("option", {value: name, selected: name === account}, name)));
}
$("#bot").addEventListener("change", (event) => {
  const name = event.target.value, who = `person=${encodeURIComponent(person)}`;
  location.assign(name ? `${root}/accounts/${name}/chat?platform=${name.split(".")[0]}&${who}` : `${root}/chat?platform=${platform}&${who}`);
});
if (ofAccount) {
  platform = ofAccount;
  $(".tabs").hidden = true;
}
