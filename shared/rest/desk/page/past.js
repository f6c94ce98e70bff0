// Any instant of the past: the way there from the page of what lives, and the bar on the page of a copy.
const utc = (ms) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
function pastBar() {
  return past ? el("p", {class: "past", role: "note"}, el("b", {}, `The past, as of ${new Date(past.at).toLocaleString([], {dateStyle: "medium", timeStyle: "medium"})}.`), ` Every page shows how the rows stood then. Nothing here changes, and nothing is sent.`) : null;
}
/** Loud where the rows are of another time than this computer's. */
function clockBar() {
  if (past || Math.abs(ahead) < 60000) return null;
  return el("p", {class: "past", role: "note"}, el("b", {}, `The clock here is ${span(Math.abs(ahead))} ${ahead > 0 ? "ahead of" : "behind"} this computer's.`), ` It is ${instant(now())} for every row and every schedule.`);
}
async function pastPage([at]) {
  if (past) return [top("The past", "This page shows a copy of the past."), el("section", {class: "panel", "aria-label": "Position"}, el("dl", {class: "facts"}, fact("asked for", past.asked || "the newest position"), fact("made", utc(past.at)), fact("position", el("code", {}, past.txid)), fact("replica", el("code", {}, past.replica)), fact("epoch", el("code", {}, past.epoch || "–")))),
    el("p", {class: "note"}, "The page of what lives has its own address. Ctrl-C in its terminal closes this copy; another instant is another copy: emulator run --from-replica …")];
  const r = await ask("/api/replica");
  if (!r.url) return [top("The past", "Nothing replicates this database, so no instant of its past can be opened.")];
  const chosen = Number(at) || Date.now() - 3600000, field = el("input", {type: "datetime-local", id: "instant", step: 1, max: localOf(Date.now()), value: localOf(chosen)});
  const command = el("pre", {class: "text mono", id: "command", tabindex: "0", "aria-label": "Command"});
  const show = () => { const ms = new Date(field.value).getTime(); command.textContent = `emulator run --from-replica ${shellQuoted(r.url)}${ms ? ` --timestamp ${utc(ms)}` : ""}`; if (ms) { history.replaceState(null, "", `#/past/${ms}`); shownHash = location.hash; } };
  field.addEventListener("input", show);
  show();
  return [top("The past", "Any instant that the replica holds can be opened: these same pages, as the rows stood then, to be read only."),
    el("section", {class: "panel", "aria-label": "Instant"}, el("div", {class: "instant"}, el("label", {for: "instant"}, "The instant, in the time of this browser"), field), el("header", {}, el("h2", {}, "On your machine"), el("button", {type: "button", class: "act", onclick: () => navigator.clipboard.writeText(command.textContent).then(() => announce("Copied."), () => getSelection().selectAllChildren(command))}, "Copy")), command,
      el("p", {}, "It opens a copy beside what lives, and prints its address; this page is there. It only reads the bucket, sends to nobody, and ends with Ctrl-C. It takes the keys of the bucket from your environment."))];
}
const localOf = (ms) => { const at = new Date(ms); return new Date(ms - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19); };
const shellQuoted = (words) => /^[\w@%+=:,./-]+$/.test(words) ? words : `'${words.replaceAll("'", "'\\''")}'`;
