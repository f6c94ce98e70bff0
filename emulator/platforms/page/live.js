// Navigation, and what happens while the page is open.
const keyOf = (d) => (d.kind === "message" || d.kind === "interaction") && d.message !== null ? d.message : "u" + (d.update_id ?? d.interaction);
function show(transcript) {
  messages = new Map(transcript.messages.map((m) => [m.id, m]));
  deliveries = new Map();
  for (const d of transcript.deliveries) deliveries.set(keyOf(d), d);
  calls = transcript.calls;
  commands = transcript.commands;
  choose(chosen);
  hasOlder = transcript.has_older;
  drawn.clear();
  steps.clear();
  draw();
  lookWhys();
}
// A transcript that is on its way may be older than the events that arrive meanwhile: they are applied again after it.
let flights = 0, held = [];
async function load(id) {
  const wanted = platform + id;
  flights++;
  try {
    const transcript = await get(`/${platform}/chats/${encodeURIComponent(id)}`);
    if (wanted === platform + chat) show(transcript);
  } finally {
    flights--;
    for (const [run, data] of held.filter(([, data]) => isHere(data))) run(data);
    if (!flights) held = [];
  }
}
/** Where there is no room for the conversation beside it, what a person opened is the main part of the page. */
function view(name) {
  document.body.dataset.view = name;
  const isAlone = getComputedStyle($("main")).display === "none";
  $(".side").setAttribute("role", isAlone && name === "chats" ? "main" : "complementary");
  $(".happened").setAttribute("role", isAlone && name === "events" ? "main" : "region");
}
addEventListener("resize", () => view(document.body.dataset.view));
async function open(id) {
  const isOther = chat !== id;
  chat = id;
  if (isOther) { topic = null; chosen = null; drafts = new Map(); unaim(); }
  notify("");
  unread.delete(platform + id);
  typing = {until: 0, timer: typing.timer};
  history.replaceState(null, "", `?platform=${platform}&chat=${encodeURIComponent(id)}&person=${person}`);
  drawSide();
  try { await load(id); } catch (problem) {
    if (isOther && chat === id) { show({messages: [], deliveries: [], calls: [], commands: [], has_older: false}); complain(`This conversation can't be read: ${problem.message}. Choose it again.`); }
  }
  if (document.body.dataset.view === "chat") box.focus();
}
function bePerson(id) {
  person = id;
  unaim();
  const own = chatsOf(id), now = own.find((c) => c.id === chat);
  if (now && !isMine(now)) { drawn.clear(); draw(); } else if (own.length) open(own.find(isMine)?.id ?? own[0].id);
}
function goTo(name) {
  platform = name;
  chat = null;
  commands = [];
  chosen = null;
  pending = [];
  drawPending();
  bePerson(here().people[0].id);
}
async function refresh() {
  state = await get("/state");
  if (!chatOf(chat)) { goTo(platform); return; }   // the emulator began anew
  await load(chat);
}
const isHere = (news) => news.platform === platform && news.chat === chat;
function onMessage(m) {
  const line = state[m.platform].chats.find((c) => c.id === m.chat);
  if (!line) { soon(refreshSoon); return; }
  if (!m.author) { forget(m); return; }
  const isNew = isHere(m) ? !messages.has(m.id) : true;
  if (isHere(m) && (isNew ? m.seq > newest() || !hasOlder || m.seq >= oldest() : true)) messages.set(m.id, m);
  if (m.only_for && m.only_for !== person) return;
  if (line.last_ms === null || m.created_ms >= line.last_ms) Object.assign(line, {preview: m.text || summary(m), last_ms: m.created_ms, last_is_bot: m.author.is_bot});
  if (isHere(m)) {
    if (m.author.is_bot && isNew) { typing.until = 0; for (const [id, d] of drafts) if ((d.thread ?? null) === (m.thread ?? null)) drafts.delete(id); }
    trim();
    soon(drawLog); soon(drawTyping); soon(drawDrafts);
  } else if (m.author.is_bot && !m.edited_ms) unread.set(m.platform + m.chat, (unread.get(m.platform + m.chat) || 0) + 1);
  soon(drawSide);
}
const seqs = () => [...messages.values()].map((m) => m.seq);
const newest = () => Math.max(0, ...seqs());
const oldest = () => Math.min(Infinity, ...seqs());
function forget(m) {
  if (!isHere(m)) return;
  messages.delete(m.id);
  drawn.delete("m" + m.id);
  if (aimed?.message.id === m.id) unaim();
  soon(drawLog);
}
const refreshSoon = () => refresh().catch(() => {});
let mark = boot.mark;   // of the last event that came
function listen() {
  const source = new EventSource(`${base}/events?after=${encodeURIComponent(mark)}`);
  const live = (yes) => { $(".link").dataset.live = yes ? "yes" : "no"; $(".link span").textContent = yes ? "live" : "connection lost, trying again…"; document.body.dataset.live = yes ? "yes" : "no"; };
  source.onopen = () => live(true);
  source.onerror = () => { live(false); if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000); };   // after a 503 the browser does not try again
  const on = (name, run) => source.addEventListener(name, (event) => {
    const data = JSON.parse(event.data);
    mark = event.lastEventId || mark;
    if (flights && ["message", "delivery", "call"].includes(name)) held.push([run, data]);
    run(data);
  });
  on("reset", () => soon(refreshSoon));   // the emulator started again, or events are gone
  on("message", onMessage);
  on("delivery", (d) => { if (isHere(d)) { deliveries.set(keyOf(d), d); soon(drawLog); soon(drawSteps); if (d.state === "delivered" && keyOf(d) === d.message) lookWhy(d.message); } });
  on("call", (c) => { if (isHere(c) && !calls.some((one) => one.seq === c.seq)) { calls.push(c); if (calls.length > 1000) { for (const old of calls.splice(0, calls.length - 600)) drawn.delete("c" + old.seq); } soon(drawSteps); if (isRefused(c)) soon(drawLog); } });
  on("typing", (t) => { if (isHere(t)) { typing = {...typing, ...t, thread: t.thread, until: Date.now() + t.for_ms}; soon(drawTyping); } });
  on("draft", (d) => { if (isHere(d)) { drafts.set(d.draft_id, {...d, until: Date.now() + d.for_ms}); soon(drawDrafts); } });
  on("notice", (n) => { if (isHere(n) && n.person === person) notify(n.text); });
  on("modal", (m) => { if (isHere(m) && m.person === person) openForm(m); });
  on("chat", () => soon(refreshSoon));
}
