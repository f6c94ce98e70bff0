// One message, or one album: several messages that the platform shows as one.
function stateOf(message) {
  if (message.author.is_bot) return null;
  const d = deliveries.get(message.id);
  if (!d) return message.state === "past" || message.seq < oldestDelivered() ? null : ["", can("commands") && !message.command ? "" : "not sent to the bot"];
  if (d.notice) return ["bad", d.notice];
  if (d.state === "delivered") return ["good", `✓ delivered in ${took(d.took_ms ?? 0)}` + (d.attempts > 1 ? `, try ${d.attempts}` : "")];
  if (d.state === "dropped") return ["bad", `given up after ${d.attempts} tries`];
  return d.attempts ? ["warn", `↻ retrying, ${d.attempts} failed: ${d.status ?? d.error}`] : ["", "sending…"];
}
/** Before this message the server knows no deliveries any more. */
function oldestDelivered() {
  if (deliveries.size < 400) return 0;
  return Math.min(...[...deliveries.keys()].map((id) => messages.get(id)?.seq ?? Infinity));
}
function key(message, b) {
  if (b.url && /^https?:/i.test(b.url)) return el("a", {href: b.url, target: "_blank", rel: "noopener noreferrer"}, b.text);
  if (b.select) return selectNode(message, b);
  return el("button", {type: "button", disabled: !b.callback_data, class: "style-" + (b.style ?? ""), onclick: async (event) => {
    const pressed = event.currentTarget;
    pressed.disabled = true;   // until the message changes, or until a person would lose patience
    setTimeout(() => { pressed.disabled = false; }, await post("press", {chat, message: message.id, person, data: b.callback_data}) ? 2000 : 0);
  }}, b.text);
}
function reactions(message) {
  const all = Object.entries(message.reacted);
  if (!all.length) return null;
  return el("div", {class: "reactions"}, all.map(([emoji, ids]) => {
    const names = ids.map(nameOf), mine = ids.includes(person);
    return el("button", {type: "button", "aria-pressed": String(mine), disabled: !can("react"), title: names.join(", "), "aria-label": `${emoji} from ${names.join(", ")}`, onclick: () => react(message, emoji)}, emoji, ids.length > 1 ? el("span", {}, ` ${ids.length}`) : null);
  }));
}
function bodyOf(message) {
  const content = contentOf(message);
  if (content) return [content];
  if (message.state === "thinking") return [el("span", {class: "dots", "aria-hidden": "true"}, el("i"), el("i"), el("i")), " thinking…"];
  if (can("entities")) return fromEntities(message.text, message.entities);
  if (message.command) return [el("span", {class: "command"}, commandName(message.command) + " "), message.text];
  return fromDiscord(message.text);
}
/** A slash command as people type it; a command of a menu by its name. */
const commandName = (name) => commands.some((c) => c.name === name && (c.type === 2 || c.type === 3)) ? `used ${name}` : "/" + name;
function quoteOf(message) {
  if (!message.reply_to) return null;
  const replied = messages.get(message.reply_to);
  if (!replied) return el("div", {class: "quote"}, "an older message, or a deleted one");
  return el("button", {type: "button", class: "quote", onclick: () => jumpTo(replied.id)}, el("b", {}, replied.author.name), el("span", {}, summary(replied)));
}
function summary(message) {
  if (message.text) return message.text.slice(0, 90);
  const [file] = message.files;
  return file ? `${KIND[file.kind] ?? file.kind}: ${file.name}` : "…";
}
function topicName(message) {
  if (topic !== null || !message.thread) return null;
  const found = chatOf(chat)?.topics.find((t) => t.id === message.thread);
  return found ? el("button", {type: "button", class: "topic", onclick: () => { topic = found.id; drawn.clear(); draw(); }}, found.name) : null;
}
function keyboardOf(message) {
  return message.keyboard && el("div", {class: "keys", role: "group", "aria-label": "Buttons of this message"}, message.keyboard.map((row) => el("div", {}, row.map((b) => key(message, b)))));
}
/** A row of the log for *unit*: messages that belong together; *next* and *last* place it among those of its author. */
function drawUnit(unit, next, last) {
  const [first] = unit.messages, main = unit.messages.find((m) => m.text) ?? first, end = unit.messages.at(-1);
  const mine = first.author.id === person && !first.author.is_bot, c = chatOf(chat);
  const edited = unit.messages.some((m) => m.edited_ms && m.state !== "done"), [tone, words] = stateOf(end) || [];
  const text = unit.messages.filter((m) => m.text || m.command || m.state === "thinking").map((m) => el("div", {class: "body"}, bodyOf(m)));
  return el("article", {class: "row" + (mine ? " mine" : "") + (next ? " next" : "") + (last ? " last" : ""), tabindex: "-1", "data-id": main.id, "aria-label": `${first.author.name}, ${time(first.created_ms)}`},
    mine ? null : face(first.author.name, first.author.is_bot ? "bot" : first.author.name),
    el("div", {class: "bubble"},
      next && !mine && (!isMine(c) || can("names")) ? el("div", {class: "who"}, first.author.name) : null,
      topicName(first), first.forwarded_from ? el("div", {class: "forwarded"}, "Forwarded from ", el("b", {}, first.forwarded_from)) : null, quoteOf(first), drawFiles(unit.messages.flatMap((m) => m.files)), text,
      keyboardOf(main), reactions(main),
      el("div", {class: "meta"},
        main.pings.length ? el("span", {class: "ping"}, "pinged " + main.pings.join(", ")) : null,
        main.is_ephemeral ? el("span", {}, "only you see this") : null,
        words ? el("span", {class: "state " + tone}, words) : null,
        edited ? el("span", {}, "edited") : null,
        el("time", {datetime: new Date(end.created_ms).toISOString()}, time(end.created_ms))),
      whyNode(end)),
    hasActions(main) ? el("button", {type: "button", class: "more", tabindex: "-1", "aria-haspopup": "menu", "aria-label": "Actions", title: "Actions", onclick: (event) => openMenu(main, event.currentTarget)}, "⋯") : null);
}
/** A call of the bot that the platform refused, or did not answer. */
function drawRefused(call) {
  const wait = call.answer?.parameters?.retry_after ?? call.answer?.retry_after;
  const what = call.status === 0 ? `${platformName()} cut the connection of` : call.status === 429 ? `${platformName()} asked to wait ${wait ?? "a while"}${wait === undefined ? "" : " s"} with` : `${platformName()} refused`;
  return el("details", {class: "refused", "data-call": call.seq},
    el("summary", {}, el("span", {class: "chip " + (call.status === 429 ? "warn" : "bad")}, call.status || "cut"), el("span", {}, el("b", {}, `${what} ${callName(call)}`), " ", el("span", {class: "why"}, whyRefused(call))), el("time", {}, time(call.at_ms))),
    partsOf(call));
}
function whyRefused(call) {
  const said = call.answer || {};
  if (call.fault) return `injected fault: ${call.fault}${said.description || said.message ? `: ${said.description || said.message}` : ""}`;
  const fields = [];
  (function walk(errors, path) {
    for (const [name, value] of Object.entries(errors || {})) {
      if (name === "_errors" && Array.isArray(value)) fields.push(...value.map((e) => `${path}${path ? ": " : ""}${e.message}`));
      else if (value && typeof value === "object") walk(value, path ? `${path}.${name}` : name);
    }
  })(said.errors, "");
  return [said.description || said.message || "no reason given", ...fields].join(" · ");
}
const callName = (c) => c.method.replace("/webhooks/{app}/{token}", "…").replace("/channels/{channel}", "…").replace(/\{(\w+)\}/g, (_, name) => name === "token" ? "…" : c.params[name] ?? name);
