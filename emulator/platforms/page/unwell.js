// What Postroom itself says of its health: what is not ready, what needs a person, and what mends it.
const UNWELL_EVERY_MS = 30000;
async function lookUnwell() {
  const found = await get("/unwell").catch(() => ({unwell: []}));   // the emulator starts again: the page says so elsewhere
  if (found.now) ahead = found.now - Date.now();
  $(".unwell").hidden = !found.unwell.length;
  $(".unwell").replaceChildren(...found.unwell.map((line) => el("p", {}, line)));
}
lookUnwell();
setInterval(lookUnwell, UNWELL_EVERY_MS);
