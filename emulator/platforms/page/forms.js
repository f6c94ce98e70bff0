// Forms in a dialog: a new person, group or topic.
/** Ask for *fields* ({name, label, ...}); *send* gets the values, and the form closes if it returns true. */
function ask(title, submit, fields, send) {
  const dialog = $("dialog.form");
  const rows = fields.map((field) => {
    const {name, label, node, ...more} = field, id = "form-" + name;
    if (node) return el("fieldset", {}, el("legend", {}, label), node);
    return more.type === "checkbox" ? el("label", {class: "tick"}, el("input", {id, name, ...more}), label) : el("div", {}, el("label", {for: id}, label), el("input", {id, name, required: true, autocomplete: "off", ...more}));
  });
  const form = el("form", {method: "dialog", "aria-label": title, onsubmit: async (event) => {
    event.preventDefault();
    const given = new FormData(form);
    if (await send(given)) dialog.close();
    else problem.textContent = $(".error").textContent;
  }}, el("h2", {}, title), rows, el("div", {class: "buttons"}, el("button", {type: "button", onclick: () => dialog.close()}, "Cancel"), el("button", {class: "primary"}, submit)));
  const problem = el("p", {class: "problem", role: "alert"});
  form.append(problem);
  dialog.setAttribute("aria-label", title);
  dialog.replaceChildren(form);
  dialog.showModal();
}
$("dialog.form").addEventListener("close", () => { complain(""); box.focus(); });
$("#add-person").addEventListener("click", () => ask("A new person", "Add", [{name: "name", label: "Name", maxlength: 64}], async (given) => {
  const added = await post("people", {name: given.get("name")});
  if (!added) return false;
  await refresh();
  if (chatsOf(added.id).length) bePerson(added.id);
  return true;
}));
$("#add-chat").addEventListener("click", () => {
  const members = el("div", {}, here().people.map((p) => el("label", {class: "tick"}, el("input", {type: "checkbox", name: "members", value: p.id, checked: p.id === person}), p.name)));
  const isSuper = platform === "telegram" ? [{name: "super", label: "Supergroup, which can have topics", type: "checkbox"}] : [];
  const title = platform === "telegram" ? "A new group with the bot" : "A new channel of the server";
  ask(title, "Create", [{name: "title", label: "Title", maxlength: 100}, {name: "members", label: "Members", node: members}, ...isSuper], async (given) => {
    const made = await post("chats", {title: given.get("title"), members: given.getAll("members"), super: given.has("super")});
    if (!made) return false;
    await refresh();
    if (chatOf(made.chat)?.members.includes(person)) open(made.chat);
    return true;
  });
});
function newTopic() {
  ask("A new topic", "Create", [{name: "name", label: "Name", maxlength: 128}], async (given) => {
    const made = await post("topics", {chat, name: given.get("name")});
    if (!made) return false;
    await refresh();
    topic = made.thread;
    drawn.clear();
    draw();
    return true;
  });
}
