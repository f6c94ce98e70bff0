// Files of messages. The server shows only types that are safe, and everything else is a download.
const fileAt = (file) => `${base}/files/${encodeURIComponent(file.id)}`;
const KIND = {photo: "photo", video: "video", animation: "GIF", audio: "audio", voice: "voice message", video_note: "video message", document: "file", sticker: "sticker"};
function fileNode(file) {
  const type = file.is_shown ? file.mime.split("/")[0] : "";
  if (type === "image" && file.kind !== "document") return picture(file);
  if (type === "video" && file.kind !== "document") return el("video", {src: fileAt(file), controls: true, preload: "metadata", "aria-label": `${KIND[file.kind] ?? file.kind} ${file.name}`});
  const card = el("a", {class: "file", href: fileAt(file), download: file.name, title: `Download ${file.name}`},
    type === "image" ? el("img", {src: fileAt(file), alt: ""}) : el("span", {class: "sheet", "aria-hidden": "true"}, extension(file.name)),
    el("span", {}, el("b", {}, file.name), el("small", {}, `${KIND[file.kind] ?? file.kind} · ${bytes(file.size)}`)));
  if (type !== "audio") return card;
  return el("div", {class: "sound"}, el("audio", {src: fileAt(file), controls: true, preload: "metadata", "aria-label": `${KIND[file.kind] ?? file.kind} ${file.name}`}), file.kind === "voice" ? el("small", {}, `voice message · ${bytes(file.size)}`) : card);
}
function picture(file) {
  return el("button", {type: "button", class: "picture", "aria-label": `Open the picture ${file.name}`, onclick: () => look(file)}, el("img", {src: fileAt(file), alt: file.name}));
}
const extension = (name) => (name.match(/\.([A-Za-z0-9]{1,4})$/) || [, "file"])[1].toUpperCase();
function look(file) {
  const dialog = $("dialog.look");
  dialog.querySelector("img").src = fileAt(file);
  dialog.querySelector("img").alt = file.name;
  dialog.showModal();
}
function drawFiles(files) {
  if (!files.length) return null;
  const pictures = files.filter((f) => f.is_shown && /^(image|video)\//.test(f.mime) && f.kind !== "document");
  const rest = files.filter((f) => !pictures.includes(f));
  return el("div", {class: "files"},
    pictures.length ? el("div", {class: "pictures", "data-count": Math.min(pictures.length, 4)}, pictures.map(fileNode)) : null,
    rest.map(fileNode));
}
