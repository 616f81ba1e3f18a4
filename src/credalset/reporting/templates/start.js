// Bring the page to life, if there is anything on it.
if (count > 0) {
  if (data.groups !== null) {
    byId("by-group-label").hidden = false;
    byId("by-group").append(...data.groups.map((name, code) => make("option", { value: code }, name)));
  }
  if (data.outlines === null && envelopes) {
    const holder = make("div", { id: "envelopes-now" });
    envelopes.replaceWith(holder);
    holder.append(envelopes);
  }
  addSorting();
  addBrush();
  const form = byId("filters");
  form.addEventListener("input", () => table.update());
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("clear").onclick = byId("map-clear").onclick = clearFilters;
  byId("before").onclick = () => {
    table.page -= 1;
    table.show();
  };
  byId("after").onclick = () => {
    table.page += 1;
    table.show();
  };
  byId("csv").onclick = () => download(table.order, "items.csv");
  byId("queue-csv").onclick = () =>
    download(
      all.filter((item) => data.queue[data.step[item]] !== "accept"),
      "queue.csv",
    );
  for (const button of document.querySelectorAll("button.show")) {
    button.onclick = () => {
      form.reset();
      byId("by-step").value = button.dataset.step;
      table.update();
      byId("items").scrollIntoView();
      byId("by-step").focus({ preventScroll: true });
    };
  }
  table.update();
}
