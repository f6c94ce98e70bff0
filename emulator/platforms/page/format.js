// Telegram: text and entities; offsets are UTF-16 units, as in JavaScript.
const WRAP = {bold: "b", italic: "i", underline: "u", strikethrough: "s", code: "code"};
function entityNode(entity, text, children) {
  if (WRAP[entity.type]) return el(WRAP[entity.type], {}, children);
  if (entity.type === "pre") return el("pre", {tabindex: "0", "data-language": entity.language || null}, el("code", {}, children));
  if (entity.type === "spoiler") return el("span", {class: "spoiler", tabindex: "0"}, children);
  if (entity.type.endsWith("blockquote")) return el("blockquote", {}, children);
  if (entity.type === "text_link") return link(entity.url, children);
  if (entity.type === "url") return link(/^[a-z]+:/i.test(text) ? text : "http://" + text, children);
  if (["mention", "text_mention", "bot_command", "hashtag", "cashtag", "email"].includes(entity.type)) return el("span", {class: "mention"}, children);
  return el("span", {}, children);
}
function link(url, children) {
  return /^(https?|tg|mailto|tel):/i.test(url) ? el("a", {href: url, target: "_blank", rel: "noopener noreferrer"}, children) : el("span", {}, children);
}
const isBlock = (entity) => entity.type === "pre" || entity.type.endsWith("blockquote");
function fromEntities(text, entities, start = 0, end = text.length) {
  const parts = [];
  let at = start;
  const inside = entities.filter((e) => e.offset >= start && e.offset + e.length <= end).sort((a, b) => a.offset - b.offset || b.length - a.length);
  for (let i = 0; i < inside.length; i++) {
    const entity = inside[i], from = entity.offset, to = from + entity.length;
    if (from < at) continue;
    const block = isBlock(entity);
    if (from > at) parts.push(block ? text.slice(at, from).replace(/\n$/, "") : text.slice(at, from));
    parts.push(entityNode(entity, text.slice(from, to), fromEntities(text, inside.slice(i + 1), from, to)));
    at = block && text[to] === "\n" ? to + 1 : to;   // the line break after a block is the block's own
  }
  if (at < end) parts.push(text.slice(at, end));
  return parts;
}

// Discord: the Markdown that its app shows.
const INLINE = /(`+)([\s\S]+?)\1(?!`)|\*\*([\s\S]+?)\*\*|__([\s\S]+?)__|~~([\s\S]+?)~~|\|\|([\s\S]+?)\|\||\*([^\s*][\s\S]*?)\*|\b_([^\s_][\s\S]*?)_\b|\[([^\]\n]+)\]\(<?(https?:\/\/[^\s)>]+)>?\)|(https?:\/\/[^\s<>)]+[^\s<>).,;:!?])|(<@[!&]?\d+>|<#\d+>|@everyone|@here)|\\([^0-9A-Za-z\s])/;
function inline(text) {
  const parts = [];
  for (let match; (match = INLINE.exec(text)); text = text.slice(match.index + match[0].length)) {
    if (match.index) parts.push(text.slice(0, match.index));
    const [, , code, bold, under, strike, spoiler, star, low, label, url, bare, mention, escaped] = match;
    if (code !== undefined) parts.push(el("code", {}, code.trim() || code));
    else if (bold !== undefined) parts.push(el("b", {}, inline(bold)));
    else if (under !== undefined) parts.push(el("u", {}, inline(under)));
    else if (strike !== undefined) parts.push(el("s", {}, inline(strike)));
    else if (spoiler !== undefined) parts.push(el("span", {class: "spoiler", tabindex: "0"}, inline(spoiler)));
    else if (star !== undefined || low !== undefined) parts.push(el("i", {}, inline(star ?? low)));
    else if (label !== undefined) parts.push(link(url, inline(label)));
    else if (bare !== undefined) parts.push(link(bare, [bare]));
    else if (mention !== undefined) parts.push(el("span", {class: "mention"}, named(mention)));
    else parts.push(escaped);
  }
  if (text) parts.push(text);
  return parts;
}
function named(mention) {
  const id = (mention.match(/\d+/) || [""])[0];
  const who = state.discord.people.find((p) => p.id === id);
  return who ? "@" + who.name : mention;
}
function fromDiscord(text) {
  const parts = [];
  text.split(/(```[\s\S]*?(?:```|$))/).forEach((piece, index) => {
    if (index % 2) {
      const match = piece.match(/^```(?:([\w+#-]+)\n|\n)?([\s\S]*?)\n?(?:```)?$/);
      parts.push(el("pre", {tabindex: "0", "data-language": match[1] || null}, el("code", {}, match[2])));
    } else if (piece) parts.push(...blocks(piece.replace(/^\n/, "").replace(/\n$/, "")));
  });
  return parts;
}
function blocks(text) {
  const parts = [];
  let plain = [];
  const flush = () => { if (plain.length) parts.push(...inline(plain.join("\n"))); plain = []; };
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const heading = lines[i].match(/^#{1,3} (.+)/), item = /^\s*(?:[-*]|(\d+)\.) (.*)/, quote = /^> ?(.*)/;
    if (heading) { flush(); parts.push(el("h3", {}, inline(heading[1]))); continue; }
    const list = item.test(lines[i]), quoted = quote.test(lines[i]);
    if (!list && !quoted) { plain.push(lines[i]); continue; }
    flush();
    const same = [];
    const pattern = list ? item : quote;
    const first = lines[i].match(pattern)[1];
    while (i < lines.length && pattern.test(lines[i])) same.push(lines[i++].match(pattern));
    i--;
    parts.push(list ? el(first ? "ol" : "ul", first ? {start: first} : {}, same.map((m) => el("li", {}, inline(m[2]))))
                    : el("blockquote", {}, inline(same.map((m) => m[1]).join("\n"))));
  }
  flush();
  return parts;
}
