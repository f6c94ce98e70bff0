// Why a message of a person has no answer: asked once the bot has it, and again while that may change.
const FINAL = ["answered", "answered_with", "no_answer", "context", "dropped", "dead", "cancelled"];
const QUIET = ["answered", "answered_with", "due", "running", "waits_for_more", "gathering", "answer_due", "answer_on_its_way"];   // all is well so far
const AGAIN_MS = [300, 2000, 5000, 15000, 60000];
const NEWEST = 12;   // messages of a conversation that was opened
const whys = new Map();
let asked1by1 = Promise.resolve();
const placeOf = (id) => `${platform} ${chat} ${id}`;
const whyOf = (message) => whys.get(placeOf(message.id)) ?? null;
async function lookWhy(id, turn = 0) {
  const place = placeOf(id), isHere = () => place === placeOf(id) && messages.has(id);
  await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(turn, AGAIN_MS.length - 1)]));
  asked1by1 = asked1by1.then(async () => {
    if (!isHere() || messages.get(id).author.is_bot) return;
    const found = await get(`/${platform}/chats/${encodeURIComponent(chat)}/messages/${encodeURIComponent(deliveries.get(id)?.interaction ?? id)}/why`).catch(() => null);
    if (!isHere()) return;
    if (found?.why) { whys.set(place, found.why); soon(drawLog); }
    const mayChange = found?.why ? !FINAL.includes(found.why.state) : turn < AGAIN_MS.length;
    if (mayChange) lookWhy(id, turn + 1);
  });
}
function lookWhys() {
  const own = [...deliveries.values()].filter((d) => d.state === "delivered" && keyOf(d) === d.message && !FINAL.includes(whys.get(placeOf(d.message))?.state));
  for (const d of own.slice(-NEWEST)) lookWhy(d.message);
}
function whyNode(message) {
  const why = whyOf(message);
  if (!why || QUIET.includes(why.state)) return null;
  return el("div", {class: "unanswered"}, el("b", {}, "Not answered: "), why.reason, why.until ? ` Until ${time(why.until, true)}.` : "");
}
