// Forms in a dialog: a new person, group or topic, and the forms (modals) of apps on Discord.
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
    if (await send(given)) closeForm();
    else problem.textContent = $(".error").textContent;
  }}, el("h2", {}, title), rows, el("div", {class: "buttons"}, el("button", {type: "button", onclick: closeForm}, "Cancel"), el("button", {class: "primary"}, submit)));
  const problem = el("p", {class: "problem", role: "alert"});
  form.append(problem);
  dialog.setAttribute("aria-label", title);
  dialog.replaceChildren(form);
  dialog.showModal();
}
/** The focus moves at once: the event of the end comes later, when the person may be elsewhere. */
function closeForm() { $("dialog.form").close(); complain(""); box.focus(); }
$("dialog.form").addEventListener("cancel", (event) => { event.preventDefault(); closeForm(); });   // Escape
$("#add-person").addEventListener("click", () => ask("A new person", "Add", [{name: "name", label: "Name", maxlength: 64}], async (given) => {
  const added = await post("people", {name: given.get("name")});
  if (!added) return false;
  await refresh();
  if (chatsOf(added.id).length) bePerson(added.id);
  return true;
}));
$("#add-chat").addEventListener("click", () => {
  const members = el("div", {}, here().people.map((p) => el("label", {class: "tick"}, el("input", {type: "checkbox", name: "members", value: p.id, checked: p.id === person}), p.name)));
  const isSuper = can("topics") ? [{name: "super", label: "Supergroup, which can have topics", type: "checkbox"}] : [];
  const title = can("topics") ? "A new group with the bot" : "A new channel of the server";
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
function newThread(message) {
  ask("A new thread", "Create", [{name: "name", label: "Name", maxlength: 100}], async (given) => {
    const made = await post("threads", {chat, person, name: given.get("name"), message: message?.id ?? null});
    if (!made) return false;
    await refresh();
    open(made.chat);
    return true;
  });
}

// Discord: selects below messages, and the fields of a form
const optionsOf = (b) => ({
  options: () => (b.options ?? []).map((o) => [o.value, o.label ?? o.value, o.default]),
  users: () => here().people.map((p) => [p.id, p.name]),
  mentionables: () => here().people.map((p) => [p.id, p.name]),
  channels: () => chatsOf(person).filter((c) => !isMine(c)).map((c) => [c.id, titleOf(c)]),
  roles: () => [],
})[b.select]();
function selectNode(message, b) {
  const most = b.max_values ?? 1, words = b.placeholder || "Choose";
  const choose = (values) => post("select", {chat, message: message.id, person, data: b.data, values});
  if (most === 1) return el("select", {"aria-label": words, disabled: !b.data, onchange: (event) => choose([event.target.value])}, el("option", {value: "", disabled: true, selected: true}, words), optionsOf(b).map(([value, label]) => el("option", {value}, label)));
  return el("button", {type: "button", disabled: !b.data, onclick: () => {
    const ticks = el("div", {}, optionsOf(b).map(([value, label, chosen]) => el("label", {class: "tick"}, el("input", {type: "checkbox", name: "values", value, checked: chosen}), label)));
    ask(words, "Choose", [{name: "values", label: `${b.min_values ?? 1} to ${most} of these`, node: ticks}], async (given) => Boolean(await choose(given.getAll("values"))));
  }}, words + "…");
}
const SELECTS = {3: "options", 5: "users", 6: "roles", 7: "mentionables", 8: "channels"};
/** The fields that show one component of a form. A label (18) names the component inside it. */
function formFields(component, label = component.label) {
  if (component.type === 1) return (component.components ?? []).flatMap((one) => formFields(one));
  if (component.type === 18) return formFields(component.component, component.label + (component.description ? `: ${component.description}` : ""));
  if (component.type === 10) return [{name: "text", label: "", node: el("p", {class: "about"}, component.content ?? "")}];
  const name = component.custom_id, required = component.required !== false;
  if (component.type === 4) {
    const common = {name, required, maxlength: component.max_length ?? 4000, minlength: component.min_length, placeholder: component.placeholder};
    return [{name, label, node: component.style === 2 ? el("textarea", {...common, rows: 4, "aria-label": label}, component.value ?? "") : el("input", {...common, value: component.value, "aria-label": label})}];
  }
  if (SELECTS[component.type]) {
    const found = optionsOf({...component, select: SELECTS[component.type]});
    return [{name, label, node: el("select", {name, multiple: (component.max_values ?? 1) > 1, required, "aria-label": label}, found.map(([value, words, selected]) => el("option", {value, selected}, words)))}];
  }
  if (component.type === 19) return [{name, label, node: el("input", {type: "file", name, multiple: (component.max_values ?? 1) > 1, required, "aria-label": label})}];
  if (component.type === 21 || component.type === 22) return [{name, label, node: el("div", {}, (component.options ?? []).map((o) => el("label", {class: "tick"}, el("input", {type: component.type === 21 ? "radio" : "checkbox", name, value: o.value, checked: o.default}), o.label)))}];
  if (component.type === 23) return [{name, label, type: "checkbox", checked: component.default, required: false}];
  return [];
}
const inputs = (components) => components.flatMap((c) => c.type === 1 ? inputs(c.components ?? []) : c.type === 18 ? [c.component] : [c]).filter((c) => c.custom_id);
function openForm(modal) {
  ask(modal.title, "Submit", modal.components.flatMap((c) => formFields(c)), async (given) => {
    const values = {}, form = new FormData();
    for (const one of inputs(modal.components)) {
      const all = given.getAll(one.custom_id);
      if (one.type === 19) for (const file of all.filter((f) => f.size || f.name)) form.append("file", file, file.name);
      else values[one.custom_id] = one.type === 22 || SELECTS[one.type] ? all : one.type === 23 ? all.length > 0 : all[0] ?? null;
    }
    form.append("person", person);
    form.append("interaction", modal.interaction);
    form.append("values", JSON.stringify(values));
    return Boolean(await post("submit", form.has("file") ? form : {person, interaction: modal.interaction, values}));
  });
}
